/// A replay as its row shows it.
package struct Replay: Sendable {
    /// Names it for programs; handlers see it.
    package var id: String
    /// Names it for people.
    package var name: String
    /// Where it sends to.
    package var target: ReplayTarget
    /// How it sends.
    package var pace: ReplayPace
    /// Where it stands.
    package var state: ReplayState
    /// The filter in its JSON form.
    package var selection: String
    /// Why, in the words of whoever planned it.
    package var reason: String?
    /// Who planned it.
    package var createdBy: String
    /// When it was planned: microseconds since 1970-01-01 UTC, as all times here.
    package var createdAt: Int64
    /// When its present run began.
    package var startedAt: Int64?
    /// When it ended.
    package var finishedAt: Int64?
    /// How many deliveries, or messages, it holds.
    package var planned: Int64
    /// The span of its messages' `received_at`.
    package var span: ClosedRange<Int64>?
    /// How many, from the first on, are done.
    package var done: Int64
    /// How many of those were passed over.
    package var skipped: Int64
    /// How much of the output file belongs to what is done.
    package var bytes: Int64
    /// How often it was begun from its first message.
    package var runs: Int64
    /// Who runs it.
    package var owner: String?
    /// When the lease ends unless its owner renews it.
    package var leaseUntil: Int64?
    /// Whether that was ahead when the row was read, by the database's clock.
    package var isHeld: Bool
    /// How long ago its present run began, by the database's clock, in microseconds.
    package var elapsed: Int64?
    /// What stopped it last.
    package var lastError: String?
}

/// Where a replay sends to.
package enum ReplayTarget: Sendable, Equatable {
    /// Handlers, as deliveries that workers hand over.
    ///
    /// With `onlyFailed`, dead letters alone.
    case handlers([String], onlyFailed: Bool)
    /// A file, or stdout where there is no path.
    case output(path: String?, format: ReplayFormat)
    /// An XMPP server, as this account (`localpart@domain`), which a worker is bound to.
    case endpoint(host: String, port: Int, account: String)

    /// The column `kind`.
    package var kind: String {
        switch self {
        case .handlers: "handlers"
        case .output: "output"
        case .endpoint: "endpoint"
        }
    }

    /// What no other replay may send to at the same time.
    package var occupies: [String] {
        switch self {
        case .handlers(let names, _): names.map { "handler:\($0)" }
        case .output(let path?, _): ["file:\(path)"]
        case .output(nil, _): []
        case .endpoint(let host, let port, let account): ["endpoint:\(host):\(port):\(account)"]
        }
    }
}

extension ReplayTarget: CustomStringConvertible {
    /// For people.
    package var description: String {
        switch self {
        case .handlers(let names, let onlyFailed):
            (names.count == 1 ? "handler " : "handlers ") + names.joined(separator: ", ")
                + (onlyFailed ? " (dead letters)" : "")
        case .output(let path, let format): "\(path ?? "stdout") as \(format.rawValue)"
        case .endpoint(let host, let port, let account): "\(account) at \(host):\(port)"
        }
    }
}

/// What stands in an output.
package enum ReplayFormat: String, CaseIterable, Sendable, Codable {
    /// One JSON object a line, as `messages export` writes it.
    case ndjson
    /// One CCS stanza a line.
    case stanzas
}

/// How fast a replay sends.
package struct ReplayPace: Sendable, Equatable, Codable {
    /// Messages a second at most; nil for no limit.
    package var rate: Double?
    /// Original pacing, so many times as fast as the messages came; nil for none.
    package var speed: Double?
    /// The most that may be under way: deliveries that wait for their handler, or unacked messages.
    package var concurrency: Int?

    /// As fast as it goes.
    package init(rate: Double? = nil, speed: Double? = nil, concurrency: Int? = nil) {
        self.rate = rate
        self.speed = speed
        self.concurrency = concurrency
    }
}

/// What the column `options` holds.
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
        case .output(let path, let format):
            self.path = path
            self.format = format
        case .endpoint(let host, let port, let account):
            self.host = host
            self.port = port
            self.account = account
        }
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
}

/// Why a replay can't be had, or can't go on.
package struct ReplayError: Error, Sendable, CustomStringConvertible {
    /// What kind of trouble it is.
    package enum Kind: Sendable {
        /// There is no such replay.
        case unknown
        /// Its state, or another replay, does not allow it.
        case refused
        /// The target can't be reached.
        case unavailable
        /// The target refuses us: credentials, rights.
        case denied
        /// The file, or the request, is not as it has to be.
        case invalid
    }

    /// What kind of trouble it is.
    package var kind: Kind
    /// The cause, and what to do about it.
    package var message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    package var description: String { message }
}
