import Glibc
import Querying

/// A file, or stdout, as a target.
///
/// The file name ends in `.partial` until the file is complete. A continued run truncates it to the position in the
/// database, so that it holds each message once however often its writer was killed. On stdout, a continued run repeats
/// what was written after the last stored position, at most half a second of it.
actor OutputSink: ReplaySink {
    private let descriptor: Int32
    private let file: OutputFile?
    private let format: ReplayFormat
    private var buffer: [UInt8] = []
    /// With tokens, because the output is sent or imported again.
    private var lines = MessageLines(.ndjson, tokens: true)
    private var current: ReplayLease.Position
    private var isClosed = false
    /// Why nothing more is written: what came before it in the buffer may stand in the file in part.
    private var failure: ReplayError?

    private static let bufferSize = 1 << 18

    /// Opens the output and truncates what a killed run left.
    ///
    /// `path` is nil for stdout; `mark` names the files that belong to this replay, according to the database.
    ///
    /// - Throws: ``ReplayError`` if the file can't be opened, another process writes to it, or this replay has not
    ///   written it.
    init(
        path: String?,
        format: ReplayFormat,
        from start: ReplayLease.Position,
        _ mark: OutputMark
    ) throws(ReplayError) {
        self.format = format
        current = start
        file = try path.map { path throws(ReplayError) in try OutputFile(path, from: start.bytes, mark) }
        descriptor = file?.descriptor ?? STDOUT_FILENO
    }

    /// The files that now belong to this replay; nil for stdout.
    nonisolated var mark: OutputMark? { file?.mark }

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
                guard let message = try item.message() else { continue }
                let stanza = ReplayStanza.stanza(message, to: nil)
                // Line ends in what a device wrote would tear the stanza's line.
                buffer += stanza.contains(0x0A) ? stanza.replacing([0x0A], with: "&#10;".utf8) : stanza
                buffer.append(0x0A)
            }
            if buffer.count >= Self.bufferSize { try flush() }
        }
    }

    func finish() throws(ReplayError) {
        _ = try position()
        try file?.finish()
    }

    func position() throws(ReplayError) -> ReplayLease.Position {
        guard !isClosed else { return current }
        try flush()
        guard file == nil || fdatasync(descriptor) == 0 else { throw OutputFile.failure("can't write to the file") }
        return current
    }

    private func flush() throws(ReplayError) {
        if let failure { throw failure }
        buffer += lines.take()
        do throws(ExportError) {
            try ExportFile(stream: descriptor).write(buffer)
        } catch {
            let failure = ReplayError(.unavailable, error.description)
            self.failure = failure
            throw failure
        }
        current.bytes += Int64(buffer.count)
        buffer.removeAll(keepingCapacity: true)
    }

    func close() {
        guard file != nil, !isClosed else { return }
        isClosed = true
        Glibc.close(descriptor)
    }
}
