import Glibc

/// The file that an export goes to; the one owner of its descriptor.
///
/// Readable by its owner only: it holds what devices sent.
package final class ExportFile: @unchecked Sendable {
    // Used by one task at a time.
    private let descriptor: Int32
    private let path: String?
    // Anything but a file has no end to go on from and nothing to sync: a device, a named pipe.
    private let isFile: Bool

    /// Where the file ended when it was opened, after a torn last line was cut; 0 for a new one.
    package private(set) var size: Int = 0

    /// The stream stdout.
    package static let standardOutput = ExportFile(descriptor: STDOUT_FILENO, path: nil)

    private init(descriptor: Int32, path: String?) {
        (self.descriptor, self.path) = (descriptor, path)
        var status = stat()
        isFile = path != nil && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    deinit { if path != nil { close(descriptor) } }

    /// Makes a file, or opens one to go on with it.
    ///
    /// - Parameters:
    ///   - path: Where.
    ///   - isResumed: Whether a file that is there is continued; else it must not be there.
    /// - Throws: ``ExportError``
    /// - Returns: The file, empty or as it was found.
    package static func open(_ path: String, isResumed: Bool) throws(ExportError) -> ExportFile {
        var status = stat()
        let isOther = stat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
        let flags = isOther ? O_WRONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC | (isResumed ? 0 : O_EXCL)
        let descriptor = Glibc.open(path, flags, 0o600)
        guard descriptor >= 0 else {
            let cause = errno
            let hint = cause == EEXIST ? ": --resume continues it, or remove it first" : ""
            throw ExportError(.refused, "can't write \(path): \(describe(cause))\(hint)")
        }
        let file = ExportFile(descriptor: descriptor, path: path)
        // Two exports that write the same file would mix their lines.
        guard isOther || flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw ExportError(.refused, "another export is writing \(path)")
        }
        return file
    }

    /// Finds the last complete line and cuts what stands behind it.
    ///
    /// - Parameter format: How lines end: in CSV a line's end inside quotes is part of a field.
    /// - Throws: ``ExportError``
    /// - Returns: The last complete line without its end, and whether it is the file's first; nil for an empty file.
    package func cutTornLine(_ format: MessageLines.Format) throws(ExportError) -> (line: [UInt8], isFirst: Bool)? {
        guard isFile else { return nil }
        var scanner = LineScanner(hasQuotes: format == .csv)
        var block = [UInt8](repeating: 0, count: 1 << 20)
        var offset: Int = 0
        while true {
            let count = pread(descriptor, &block, block.count, offset)
            guard count >= 0 else { throw failure("read") }
            guard count > 0 else { break }
            scanner.scan(block[..<count])
            offset += count
        }
        size = scanner.end
        guard ftruncate(descriptor, scanner.end) == 0 else { throw failure("cut") }
        guard lseek(descriptor, scanner.end, SEEK_SET) == scanner.end else { throw failure("position") }
        guard scanner.end > 0 else { return nil }
        var line = try read(count: scanner.end - scanner.start, at: scanner.start)
        while let last = line.last, last == 0x0A || last == 0x0D { line.removeLast() }
        return (line, scanner.start == 0)
    }

    /// Bytes from a place of the file; fewer where it ends before.
    ///
    /// - Throws: ``ExportError``
    func read(count: Int, at offset: Int) throws(ExportError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = pread(descriptor, &bytes, count, offset)
        guard found >= 0 else { throw failure("read") }
        return Array(bytes[..<found])
    }

    /// Writes all of it.
    ///
    /// - Throws: ``ExportError``
    package func write(_ bytes: [UInt8]) throws(ExportError) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress.map { $0 + written }, $0.count - written)
            }
            if count >= 0 {
                written += count
            } else if errno == EAGAIN {
                var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&ready, 1, 1_000)
            } else if errno != EINTR {
                throw failure("write")
            }
        }
    }

    /// Waits until everything is on the disk, the file's name included; does nothing for stdout.
    ///
    /// - Throws: ``ExportError``
    package func sync() throws(ExportError) {
        guard isFile, let path else { return }
        guard fsync(descriptor) == 0 else { throw failure("save") }
        let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let folder = Glibc.open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { return }
        _ = fsync(folder)
        close(folder)
    }

    private func failure(_ verb: String) -> ExportError {
        let cause = errno
        return ExportError(
            cause == EPIPE ? .readerGone : .output,
            "can't \(verb) \(path ?? "the output"): \(Self.describe(cause))"
        )
    }

    private static func describe(_ number: Int32) -> String { String(cString: strerror(number)) }
}

/// Finds the last complete line of what it is shown, block after block.
struct LineScanner {
    /// Where the last complete line begins.
    private(set) var start: Int = 0
    /// Where it ends, its end included; 0 as long as there is none.
    private(set) var end: Int = 0

    private let hasQuotes: Bool
    private var isQuoted = false
    private var position: Int = 0

    init(hasQuotes: Bool) {
        self.hasQuotes = hasQuotes
    }

    mutating func scan(_ block: ArraySlice<UInt8>) {
        for byte in block {
            position += 1
            if hasQuotes, byte == 0x22 {
                isQuoted.toggle()
            } else if byte == 0x0A, !isQuoted {
                start = end
                end = position
            }
        }
    }
}
