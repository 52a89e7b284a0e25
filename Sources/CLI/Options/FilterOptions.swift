import ArgumentParser
import Foundation
import Glibc
import Postgres
import Querying
import Telemetry
import UpstreamKit
import Vocabulary
import Worker

/// Which messages: the options that every command over stored messages shares.
struct FilterOptions: ParsableArguments {
    @Option(help: "Only this category; given several times, any of them.")
    var category: [String] = []
    @Option(help: "Only messages to this sender.")
    var sender: String?
    @Option(help: ArgumentHelp("Only this device, by its device_key.", valueName: "key"))
    var device: String?
    @Option(
        help: ArgumentHelp(
            "Only the device whose registration token this file holds; - reads stdin. Tokens never stand in arguments.",
            valueName: "file"
        ),
        completion: .file()
    )
    var fromTokenFile: String?
    @Option(name: .customLong("message-id"), help: ArgumentHelp("Only messages with this id.", valueName: "id"))
    var messageID: String?
    @Option(
        help: ArgumentHelp(
            "Received at or after: 2h, 30d, yesterday, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without an offset).",
            valueName: "time"
        )
    )
    var since: String?
    @Option(help: ArgumentHelp("Received before.", valueName: "time"))
    var until: String?
    @Option(
        name: .customLong("where"),
        help: ArgumentHelp(
            """
            Only where this holds of data: data.path=value, also != < <= > >= ~ (regular expression) and 'data.path exists'; \
            given several times, all of them.
            """,
            valueName: "clause"
        )
    )
    var clauses: [String] = []

    /// The filter, with spans of time counted back from the database's present; the filter itself was read before, so
    /// that what is written wrong is told without a database.
    ///
    /// - Throws: What ``make()`` throws of the times, and `PostgresError`.
    func judged(_ filter: MessageFilter, _ connection: PostgresConnection) async throws -> MessageFilter {
        guard since != nil || until != nil else { return filter }
        let now = try await MessageTail.now(connection)
        var filter = filter
        (filter.since, filter.until) = try times(now: now)
        return filter
    }

    private func times(now: Int64) throws -> (since: Int64?, until: Int64?) {
        let times = (
            since: try since.map { try TimeExpression.parse($0, now: now) },
            until: try until.map { try TimeExpression.parse($0, now: now) }
        )
        if let since = times.since, let until = times.until, since >= until {
            throw CommandFailure(.usage, "--since must be before --until")
        }
        return times
    }

    /// The filter.
    ///
    /// - Throws: ``CommandFailure`` and `FilterError`: what is written can't be read.
    func make() throws -> MessageFilter {
        var filter = MessageFilter()
        filter.categories = category
        filter.senderID = sender
        filter.messageID = messageID
        (filter.since, filter.until) = try times(now: Timestamp.now.microseconds)
        filter.clauses = try clauses.map { try WhereClause(parsing: $0) }
        if let device {
            guard fromTokenFile == nil else {
                throw CommandFailure(.usage, "--device and --from-token-file name a device each: give one of them")
            }
            guard let key = DeviceKey(device) else {
                throw CommandFailure(
                    .usage,
                    "--device takes a device_key, 8-4-4-4-12 hex digits; a token goes into a file: --from-token-file"
                )
            }
            filter.deviceKey = key
        } else if let fromTokenFile {
            filter.deviceKey = DeviceKey(of: try TokenFile.read(fromTokenFile))
        }
        return filter
    }
}

/// A file that holds one registration token.
enum TokenFile {
    /// Reads it; line ends around the token are no part of it.
    static func read(_ path: String) throws(CommandFailure) -> RegistrationToken {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.noInput, "can't read the token file \(path): \(String(cString: strerror(errno)))")
        }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        // A token has 4,096 bytes at most.
        var bytes = [UInt8](repeating: 0, count: 8_192)
        var count = 0
        while count < bytes.count {
            let found = bytes.withUnsafeMutableBytes { buffer in
                Glibc.read(descriptor, buffer.baseAddress.map { $0 + count }, buffer.count - count)
            }
            if found == 0 { break }
            guard found > 0 else {
                if errno == EINTR { continue }
                throw CommandFailure(.noInput, "can't read the token file \(path): \(String(cString: strerror(errno)))")
            }
            count += found
        }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw CommandFailure(.badData, "the token file holds no UTF-8 text")
        }
        let token = text.drop { $0.isNewline }
        let trimmed = token[..<(token.lastIndex { !$0.isNewline }.map(token.index(after:)) ?? token.startIndex)]
        guard !trimmed.isEmpty, trimmed.utf8.count <= 4_096, !trimmed.contains(where: \.isNewline) else {
            throw CommandFailure(.badData, "the token file must hold one registration token, on one line")
        }
        return RegistrationToken(String(trimmed))
    }
}
