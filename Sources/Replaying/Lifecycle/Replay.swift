import Foundation
import Postgres
package import Vocabulary

package struct Replay: Sendable {
    package var id: Digest128
    package var name: String
    package var target: ReplayTarget
    package var pace: ReplayPace
    package var state: ReplayState
    package var selection: String
    package var reason: String?
    package var createdBy: String
    package var createdAt: Timestamp
    /// When its current run began.
    package var startedAt: Timestamp?
    package var finishedAt: Timestamp?
    /// How many deliveries or messages it holds.
    package var planned: Int64
    /// The span of its messages' `received_at`.
    package var span: ClosedRange<Timestamp>?
    /// How many of them, from the first on, are done.
    package var done: Int64
    package var skipped: Int64
    /// The length of the output file that belongs to what is done.
    package var bytes: Int64
    /// How often it was started from its first message.
    package var runs: Int64
    package var owner: String?
    package var leaseUntil: Timestamp?
    /// Whether the lease was valid when the row was read, by the database's clock.
    package var isHeld: Bool
    /// How long ago its current run began, by the database's clock.
    package var elapsed: Duration?
    package var lastError: String?
}

package struct ReplayPace: Sendable, Equatable, Codable {
    /// Maximum messages per second; nil for no limit.
    package var rate: Double?
    /// Original pacing, this many times as fast as the messages were received; nil for none.
    package var speed: Double?
    /// The maximum in flight: deliveries that wait for their handler, or unacked messages.
    package var concurrency: Int?

    package static let rates = 0.001...1e9
    package static let concurrencies = 1...100_000

    package init(rate: Double? = nil, speed: Double? = nil, concurrency: Int? = nil) {
        (self.rate, self.speed, self.concurrency) = (rate, speed, concurrency)
    }
}

extension Replay {
    /// Reads a row of ``ReplayStatements``; nil for a state or options that only another version knows.
    static func read(_ row: inout PostgresRow) throws(PostgresError) -> Replay? {
        let (kind, handlers) = (try row.next(String.self), try row.next([String].self))
        let onlyFailed = try row.next(Bool.self)
        let options = ReplayOptions(try row.next(JSONColumn.self))
        let state = ReplayState(rawValue: try row.next())
        defer { row.skipRest() }
        guard let options, let state,
            let target = options.target(kind: kind, handlers: handlers, onlyFailed: onlyFailed)
        else { return nil }
        return Replay(
            id: try row.next(),
            name: try row.next(),
            target: target,
            pace: options.pace,
            state: state,
            selection: try row.next(),
            reason: try row.next(),
            createdBy: try row.next(),
            createdAt: try row.next(),
            startedAt: try row.next(),
            finishedAt: try row.next(),
            planned: try row.next(),
            span: ClosedRange(try row.next(), try row.next()),
            done: try row.next(),
            skipped: try row.next(),
            bytes: try row.next(),
            runs: try row.next(),
            owner: try row.next(),
            leaseUntil: try row.next(),
            isHeld: try row.next(),
            elapsed: try row.next(Int64?.self).map { .microseconds($0) },
            lastError: try row.next()
        )
    }
}

struct ReplayOptions: Codable {
    var pace: ReplayPace
    var path: String?
    var format: ReplayFormat?
    var host: String?
    var port: Int?
    var account: String?

    init(_ target: ReplayTarget, _ pace: ReplayPace) {
        self.pace = pace
        switch target {
        case .handlers: break
        case .output(let path, let format): (self.path, self.format) = (path, format)
        case .endpoint(let host, let port, let account):
            (self.host, self.port, self.account) = (host, port, account)
        }
    }

    /// Reads the column; nil for options of another version.
    init?(_ column: JSONColumn) {
        guard let options = try? JSONDecoder().decode(ReplayOptions.self, from: Data(column.utf8)) else { return nil }
        self = options
    }

    func target(kind: String, handlers: [String], onlyFailed: Bool) -> ReplayTarget? {
        switch kind {
        case "handlers": return .handlers(handlers, onlyFailed: onlyFailed)
        case "output": return .output(path: path, format: format ?? .ndjson)
        default:
            guard let host, let port, let account else { return nil }
            return .endpoint(host: host, port: port, account: account)
        }
    }

    var column: JSONColumn {
        get throws(PostgresError) { try JSONColumn(encoding: self, "the options of the replay") }
    }
}

extension ClosedRange<Timestamp> {
    /// The span of two moments in any order; nil unless both are known.
    init?(_ first: Timestamp?, _ last: Timestamp?) {
        guard let first, let last else { return nil }
        self = Swift.min(first, last)...Swift.max(first, last)
    }
}

extension JSONColumn {
    init(encoding value: some Encodable, _ name: String) throws(PostgresError) {
        do {
            self.init(utf8: [UInt8](try JSONEncoder().encode(value)))
        } catch {
            throw PostgresError(.other, "\(name) can't be written as JSON")
        }
    }
}
