import CGlibc
import Glibc

package struct ExportError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// The file exists, or can't be created.
        case refused
        case mismatch
        /// Writing failed, for example because the disk is full.
        case output
        /// The reader of the output has closed it, as `head` does.
        case readerGone
    }

    package var kind: Kind
    package var description: String

    init(_ kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}

/// An export's output file; owns the descriptor.
///
/// Readable by its owner only: it holds what devices sent.
package final class ExportFile: @unchecked Sendable {
    // Used by one task at a time.
    private let descriptor: Int32
    private let path: String?
    // A device or a named pipe can't be continued or synced.
    private let isFile: Bool

    /// Its size when opened, without an incomplete last line; 0 for a new file.
    package private(set) var size: Int = 0
    private(set) var length: Int = 0

    /// Wraps a stream that stays open, such as stdout.
    package convenience init(stream descriptor: Int32) {
        self.init(descriptor: descriptor, path: nil)
    }

    private init(descriptor: Int32, path: String?) {
        (self.descriptor, self.path) = (descriptor, path)
        var status = upstream_file()
        isFile = path != nil && upstream_fstat(descriptor, &status) == 0 && status.mode & S_IFMT == S_IFREG
    }

    deinit { if path != nil { close(descriptor) } }

    /// Creates a file, or opens an existing one to continue it.
    ///
    /// An existing file is continued only if it is ours and nobody else can write to it; links to files are not
    /// followed. Devices and named pipes are written to as they are.
    package static func open(_ path: String, isResumed: Bool) throws(ExportError) -> ExportFile {
        var descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0, errno == EEXIST { descriptor = try existing(path, isResumed: isResumed) }
        guard descriptor >= 0 else { throw ExportError(.refused, "can't write \(path): \(describe(errno))") }
        let file = ExportFile(descriptor: descriptor, path: path)
        // Two exports to one file would mix their lines.
        guard !file.isFile || flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw ExportError(.refused, "another export is writing \(path)")
        }
        return file
    }

    /// Opens an existing file; negative, with `errno`, on failure.
    private static func existing(_ path: String, isResumed: Bool) throws(ExportError) -> Int32 {
        var status = upstream_file()
        guard upstream_stat(path, &status) == 0 else {
            throw ExportError(.refused, "can't write \(path): \(describe(errno))")
        }
        guard status.mode & S_IFMT == S_IFREG else {
            // /dev/stdout is a link, so links are followed here; the opened file is checked again.
            let descriptor = Glibc.open(path, O_WRONLY | O_CLOEXEC)
            if descriptor >= 0, upstream_fstat(descriptor, &status) == 0, status.mode & S_IFMT == S_IFREG {
                close(descriptor)
                throw ExportError(.refused, "can't write \(path): it was replaced in the meantime")
            }
            return descriptor
        }
        guard isResumed else {
            throw ExportError(
                .refused,
                "can't write \(path): \(describe(EEXIST)): continue it with --resume, or remove it first"
            )
        }
        let descriptor = Glibc.open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0, upstream_fstat(descriptor, &status) == 0 else { return descriptor }
        guard status.mode & S_IFMT == S_IFREG, status.links == 1, status.owner == geteuid(),
            status.mode & 0o022 == 0
        else {
            close(descriptor)
            throw ExportError(
                .refused,
                "can't continue \(path): it has another owner, other names, or others may write to it"
            )
        }
        return descriptor
    }

    /// Finds the last complete line, without changing the file.
    ///
    /// In CSV a line end inside quotes is part of a field.
    ///
    /// - Returns: The line without its end, and whether it is the file's first; nil if there is none.
    package func lastLine(_ format: MessageLines.Format) throws(ExportError) -> (line: [UInt8], isFirst: Bool)? {
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
        length = offset
        guard scanner.end > 0 else { return nil }
        var line = try read(count: scanner.end - scanner.start, at: scanner.start)
        while let last = line.last, last == 0x0A || last == 0x0D { line.removeLast() }
        return (line, scanner.start == 0)
    }

    /// Truncates the file after the last complete line, once ``lastLine(_:)`` has shown it to be an export.
    package func cutTornLine() throws(ExportError) {
        guard isFile else { return }
        guard ftruncate(descriptor, size) == 0 else { throw failure("cut") }
        guard lseek(descriptor, size, SEEK_SET) == size else { throw failure("position") }
    }

    /// Bytes from an offset on; fewer if the file ends before.
    func read(count: Int, at offset: Int) throws(ExportError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = pread(descriptor, &bytes, count, offset)
        guard found >= 0 else { throw failure("read") }
        return Array(bytes[..<found])
    }

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

    /// Waits until the file and its name are on disk; does nothing for stdout.
    package func sync() throws(ExportError) {
        guard isFile, let path else { return }
        guard fsync(descriptor) == 0 else { throw failure("save") }
        Self.syncFolder(of: path)
    }

    /// Waits until the names in a file's folder are on disk, where the file system can tell.
    package static func syncFolder(of path: String) {
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

/// Finds the last complete line of a file, block by block.
struct LineScanner {
    /// The offset of the last complete line.
    private(set) var start: Int = 0
    /// Its end, with the line end; 0 if there is none yet.
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
