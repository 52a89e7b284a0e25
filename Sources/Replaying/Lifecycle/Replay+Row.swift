import Foundation
import Postgres
import Vocabulary

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

    /// The target that the options and the row's other columns describe; nil for options of another version.
    func target(kind: String, handlers: [String], onlyFailed: Bool) -> ReplayTarget? {
        switch kind {
        case "handlers": return .handlers(handlers, onlyFailed: onlyFailed)
        case "output": return .output(path: path, format: format ?? .ndjson)
        default:
            guard let host, let port, let account else { return nil }
            return .endpoint(host: host, port: port, account: account)
        }
    }

    /// The column's value.
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
    /// The JSON form of a value.
    init(encoding value: some Encodable, _ name: String) throws(PostgresError) {
        do {
            self.init(utf8: [UInt8](try JSONEncoder().encode(value)))
        } catch {
            throw PostgresError(.other, "\(name) can't be written as JSON")
        }
    }
}
