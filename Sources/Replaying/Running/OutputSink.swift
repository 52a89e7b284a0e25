import Glibc
import MessageStore
import Querying

/// A file, or stdout, as a target.
///
/// The file has `.partial` at the end of its name until it is whole. What stands in it behind the position that the
/// database holds is taken away when a run goes on, so that it holds each message once however often its writer was
/// killed. What has gone to stdout is gone: there, a run that goes on repeats what was written after the last position,
/// half a second of it at most.
actor OutputSink: ReplaySink {
    private let descriptor: Int32
    private let path: String?
    private let format: ReplayFormat
    private var buffer: [UInt8] = []
    /// With the tokens: what is written is to be sent, or imported, again.
    private var lines = MessageLines(.ndjson, tokens: true)
    private var current: ReplayLease.Position
    private var isClosed = false

    private static let bufferSize = 1 << 18

    /// Opens the output and takes away what a killed run left over.
    ///
    /// - Parameters:
    ///   - path: The file; nil for stdout.
    ///   - format: What stands in it.
    ///   - start: Where the run goes on.
    ///   - replaces: Whether a file that is there may go: it is of an earlier run of this replay.
    /// - Throws: ``ReplayError`` where the file can't be had, another process writes to it, or it is not what this replay
    ///   has written.
    init(path: String?, format: ReplayFormat, from start: ReplayLease.Position, replaces: Bool) throws(ReplayError) {
        self.format = format
        self.path = path
        current = start
        guard let path else {
            descriptor = STDOUT_FILENO
            return
        }
        let partial = path + ".partial"
        if access(path, F_OK) == 0 {
            if start.bytes > 0, access(partial, F_OK) != 0 {
                // Killed between giving the file its name and saying so.
                guard rename(path, partial) == 0 else { throw Self.failure("can't go on with \(path)") }
            } else if !replaces {
                throw ReplayError(.refused, "\(path) is there already: choose another name, or remove it")
            }
        }
        descriptor = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("can't open \(partial)") }
        do throws(ReplayError) {
            try Self.prepare(descriptor, partial, start)
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private static func prepare(
        _ descriptor: Int32,
        _ path: String,
        _ start: ReplayLease.Position
    ) throws(ReplayError) {
        // Held as long as the descriptor is open, also by a process that is stopped.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw ReplayError(.refused, "another process writes to \(path)")
        }
        let size = lseek(descriptor, 0, SEEK_END)
        guard size >= start.bytes else {
            throw ReplayError(
                .invalid,
                "\(path) holds \(size) bytes, and this replay has written \(start.bytes): put the file back, "
                    + "or send everything again with --again"
            )
        }
        guard ftruncate(descriptor, off_t(start.bytes)) == 0, lseek(descriptor, off_t(start.bytes), SEEK_SET) >= 0
        else {
            throw failure("can't cut \(path) to its first \(start.bytes) bytes")
        }
    }

    private static func failure(_ what: String) -> ReplayError {
        ReplayError(.unavailable, "\(what): \(String(cString: strerror(errno)))")
    }

    func send(_ items: [ReplayItem]) throws(ReplayError) {
        for item in items {
            current.done += 1
            guard !item.isGone else {
                current.skipped += 1
                continue
            }
            switch format {
            case .ndjson:
                lines.append(item.page, item.row)
                if lines.count >= 1 << 16 { buffer += lines.take() }
            case .stanzas:
                guard let message = item.page.message(item.row)?.message else { continue }
                buffer += ReplayStanza.stanza(message, to: nil)
                buffer.append(UInt8(ascii: "\n"))
            }
            if buffer.count >= Self.bufferSize { try flush() }
        }
    }

    func finish() throws(ReplayError) {
        _ = try position()
        guard let path else { return }
        guard rename(path + ".partial", path) == 0 else { throw Self.failure("can't give \(path) its name") }
    }

    func position() throws(ReplayError) -> ReplayLease.Position {
        guard !isClosed else { return current }
        try flush()
        guard path == nil || fdatasync(descriptor) == 0 else { throw Self.failure("can't write to the file") }
        return current
    }

    private func flush() throws(ReplayError) {
        buffer += lines.take()
        var start = 0
        while start < buffer.count {
            let written = buffer.withUnsafeBytes { bytes in
                bytes.baseAddress.map { Glibc.write(descriptor, $0 + start, bytes.count - start) } ?? 0
            }
            if written > 0 {
                start += written
            } else if errno != EINTR {
                throw Self.failure("can't write the output")
            }
        }
        current.bytes += Int64(buffer.count)
        buffer.removeAll(keepingCapacity: true)
    }

    func close() {
        guard path != nil, !isClosed else { return }
        isClosed = true
        Glibc.close(descriptor)
    }
}
