package enum ReplayTarget: Sendable, Equatable {
    /// Handlers, as deliveries for workers; with `onlyFailed` only their dead letters.
    case handlers([String], onlyFailed: Bool)
    case output(path: String?, format: ReplayFormat)
    /// An XMPP server, as the account (`localpart@domain`) that a worker is bound to.
    case endpoint(host: String, port: Int, account: String)

    package var kind: String {
        switch self {
        case .handlers: "handlers"
        case .output: "output"
        case .endpoint: "endpoint"
        }
    }

    /// What no two replays may send to at once: the column `occupies`.
    package var occupies: [String] {
        switch self {
        case .handlers(let names, _): names.map { "handler:\($0)" }
        case .output(let path?, _): ["file:\(path)"]
        case .output(nil, _): []
        case .endpoint(let host, let port, let account): ["endpoint:\(host):\(port):\(account)"]
        }
    }

    var handlers: [String] {
        if case .handlers(let names, _) = self { names } else { [] }
    }
}

extension ReplayTarget: CustomStringConvertible {
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

package enum ReplayFormat: String, CaseIterable, Sendable, Codable {
    /// One JSON object per line, as `messages export` writes it.
    case ndjson
    case stanzas
}
