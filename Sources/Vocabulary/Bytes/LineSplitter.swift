/// Splits what is read of a file into its lines, of which the too long ones are dropped.
package struct LineSplitter: Sendable {
    /// One line without line end.
    package struct Line: Equatable {
        package var bytes: [UInt8]
        /// Whether it was over the limit and dropped.
        package var isTooLong = false
    }

    private let limit: Int
    private var rest: [UInt8] = []
    /// Whether the line under way is over the limit.
    package private(set) var isDropping = false

    /// A splitter that drops lines longer than this many bytes.
    package init(limit: Int) { self.limit = limit }

    /// Adds bytes and returns the lines that they complete.
    package mutating func add(_ bytes: ArraySlice<UInt8>) -> [Line] {
        var lines: [Line] = []
        var start = bytes.startIndex
        while let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(line(bytes[start..<end]))
            start = end + 1
        }
        keep(bytes[start...])
        return lines
    }

    /// Returns the rest after the last line end as a line.
    package mutating func finish() -> [Line] {
        rest.isEmpty && !isDropping ? [] : [line([])]
    }

    private mutating func keep(_ bytes: ArraySlice<UInt8>) {
        if isDropping || rest.count + bytes.count > limit {
            isDropping = true
            rest = []
        } else {
            rest += bytes
        }
    }

    private mutating func line(_ bytes: ArraySlice<UInt8>) -> Line {
        keep(bytes)
        defer {
            rest = []
            isDropping = false
        }
        if rest.last == UInt8(ascii: "\r") { rest.removeLast() }
        return Line(bytes: rest, isTooLong: isDropping)
    }
}
