package import Postgres
import UpstreamKit
package import Vocabulary

/// Writes any number of messages to a file, oldest first, in constant memory.
///
/// Pages follow the primary key; one is read while the other is written. A message is exported if it had committed when
/// its page was read. What commits later behind the export's position is missing, so an export of recent messages
/// should end a little before now (`--until 5m`).
package struct MessageExport: Sendable {
    package var filter: MessageFilter
    package var format: MessageLines.Format
    package var tokens: Bool
    package var isForTerminal = false
    package var pageRows = 5_000
    /// About how many bytes a page may take.
    package var pageBytes = 4 << 20

    package init(_ filter: MessageFilter, _ format: MessageLines.Format, tokens: Bool) {
        (self.filter, self.format, self.tokens) = (filter, format, tokens)
    }

    package struct Progress: Sendable {
        package var rows: Int64 = 0
        package var bytes: Int64 = 0
        package var cursor: MessageCursor?
    }

    /// The time at which an export without an end of its own stops, instead of following new messages for ever.
    ///
    /// It is after every stored message, including those stamped by a worker's clock that is ahead of the database's.
    package static func end(_ connection: PostgresConnection) async throws(PostgresError) -> Timestamp {
        try await connection.result(of: MessageStatements.end).value()
    }

    /// The position after the last complete line of an interrupted export; truncates the rest.
    ///
    /// - Throws: ``ExportError`` if the file is not an export with these columns.
    /// - Returns: nil to start from the beginning.
    package func resume(_ file: ExportFile) throws(ExportError) -> MessageCursor? {
        let place = try place(in: file)
        // Only now, so that a file that is not an export stays as it is.
        try file.cutTornLine()
        return place
    }

    private func place(in file: ExportFile) throws(ExportError) -> MessageCursor? {
        var lines = MessageLines(format, tokens: tokens)
        lines.appendHead()
        let head = lines.take()
        guard let (line, isFirst) = try file.lastLine(format) else {
            // Interrupted within its first line, or something else.
            let beginning: [UInt8] = format == .csv ? head : [UInt8(ascii: "{"), UInt8(ascii: "\"")]
            let count = min(file.length, beginning.count)
            guard try file.begins(with: Array(beginning.prefix(count))) else { throw mismatch }
            return nil
        }
        switch format {
        case .ndjson: return try cursor(ofObject: line)
        case .csv:
            guard try file.begins(with: head) else { throw mismatch }
            return isFirst ? nil : try cursor(ofRecord: line)
        }
    }

    /// Runs to the end, reporting progress after each page.
    ///
    /// - Throws: ``PostgresError``, ``ExportError``, and `CancellationError`.
    package func run(
        to file: ExportFile,
        after start: MessageCursor?,
        _ connection: PostgresConnection,
        _ report: (Progress) -> Void
    ) async throws -> Progress {
        var lines = MessageLines(format, tokens: tokens, isForTerminal: isForTerminal)
        var progress = Progress()
        var pager = MessagePager(filter, .oldestFirst, limit: pageRows, after: start)
        pager.byteLimit = pageBytes
        if file.size == 0 { lines.appendHead() }
        var page = try await pager.next(connection)
        while page.count > 0 {
            let following = page.isFull ? pager : nil
            async let next = Self.read(following, connection)
            for row in 0..<page.count { lines.append(page, row) }
            progress.rows += Int64(page.count)
            progress.cursor = page.end
            progress.bytes += Int64(lines.count)
            try file.write(lines.take())
            report(progress)
            try Task.checkCancellation()
            guard let (newPage, newPager) = try await next else { break }
            (page, pager) = (newPage, newPager)
        }
        try file.write(lines.take())
        try file.sync()
        return progress
    }

    /// The next page; nil without a pager.
    private static func read(
        _ pager: MessagePager?,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> (MessagePage, MessagePager)? {
        guard var pager else { return nil }
        let page = try await pager.next(connection)
        return (page, pager)
    }

    private var mismatch: ExportError {
        ExportError(
            .mismatch,
            "the file is not an export of messages in this format and with these columns: write another without --resume"
        )
    }

    private func cursor(ofObject line: [UInt8]) throws(ExportError) -> MessageCursor {
        let names = [MessageColumn.messageKey, .receivedAt, .registrationToken].map(\.name)
        guard let texts = JSONScanner.texts(names, of: line), let key = texts[names[0]].flatMap({ MessageKey($0) }),
            let time = texts[names[1]].flatMap({ try? TimeExpression.moment($0) }), (texts[names[2]] != nil) == tokens
        else { throw mismatch }
        return MessageCursor(receivedAt: time, messageKey: key)
    }

    private func cursor(ofRecord line: [UInt8]) throws(ExportError) -> MessageCursor {
        // The first two fields are never in quotes.
        let fields = line.split(separator: UInt8(ascii: ","), maxSplits: 2).map { String(decoding: $0, as: UTF8.self) }
        guard fields.count == 3, let key = MessageKey(fields[0]), let time = try? TimeExpression.moment(fields[1])
        else {
            throw mismatch
        }
        return MessageCursor(receivedAt: time, messageKey: key)
    }
}

extension ExportFile {
    fileprivate func begins(with head: [UInt8]) throws(ExportError) -> Bool {
        try read(count: head.count, at: 0) == head
    }
}
