package import Vocabulary

extension TerminalText {
    /// The columns that an escaped text takes.
    package static func width(_ text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// Cuts an escaped text to a number of columns, marking the cut with `…`.
    package static func cut(_ text: String, to limit: Int) -> String {
        var columns = 0
        var marks = 0
        var kept = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let width = width(scalar)
            // Marks take no column, so a text of marks alone is limited here.
            marks = width == 0 ? marks + 1 : 0
            guard columns + width <= limit, marks <= 8 else {
                while columns > max(0, limit - 1), let last = kept.popLast() { columns -= Self.width(last) }
                return limit > 0 ? String(kept) + "…" : ""
            }
            columns += width
            kept.append(scalar)
        }
        return text
    }

    /// Cuts the middle out of an escaped text, with `…` in its place.
    package static func cutMiddle(_ text: String, to limit: Int) -> String {
        guard width(text) > limit, limit > 2 else { return cut(text, to: limit) }
        var end = String.UnicodeScalarView()
        var columns = 0
        for scalar in text.unicodeScalars.reversed() {
            let width = width(scalar)
            guard columns + width <= limit / 2, end.count < limit * 2 else { break }
            columns += width
            end.insert(scalar, at: end.startIndex)
        }
        // A mark without its character would attach to the ellipsis.
        while let first = end.first, width(first) == 0 { end.removeFirst() }
        let start = cut(text, to: limit - columns)
        return (start.hasSuffix("…") ? start : start + "…") + String(end)
    }

    /// 0 for combining marks, 2 for East Asian wide characters and pictographs, else 1.
    private static func width(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
            0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}

extension String.UnicodeScalarView {
    fileprivate mutating func popLast() -> Unicode.Scalar? { isEmpty ? nil : removeLast() }
}
