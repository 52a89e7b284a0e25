import Foundation
import Postgres
package import Vocabulary

/// A worker's report about itself, in `upstream.workers`.
package struct WorkerReport: Sendable, Equatable {
    /// A sender's streams in one worker.
    package struct Streams: Sendable, Equatable, Codable {
        package var sender: String
        /// Streams being opened.
        package var connecting = 0
        /// Streams that receive.
        package var bound = 0
        /// Streams that receive until their successor does.
        package var draining = 0
    }

    /// A worker's rates between two rows.
    package struct Rates: Sendable, Equatable, Codable {
        /// The time between the rows, in seconds; 0 in the first.
        package var seconds = 0.0
        /// Copies received per second, including receipts and malformed ones.
        package var received = 0.0
        /// New messages per second.
        package var stored = 0.0
        package var duplicates = 0.0
        /// Acks sent per second.
        package var acked = 0.0
        package var handled = 0.0
        /// The median time to ack in seconds, to the width of a histogram's bucket; nil without acks.
        @OrNull package var ackP50: Double?
        /// The 99th percentile of it.
        @OrNull package var ackP99: Double?
        /// How many seconds the machine's clock is ahead of the database's; nil if unknown.
        @OrNull package var clockAhead: Double?
    }

    /// A handler in one worker.
    package struct Handler: Sendable, Equatable, Codable {
        package var handler: String
        /// The state of its circuit breaker: `closed`, `open` or `half_open`.
        package var circuit: String
        /// Seconds from the heartbeat until the next probe may begin; nil if the circuit is not open.
        @OrNull package var nextProbe: Double?
        /// Whether this worker knows it to be paused.
        package var isPaused = false
        /// Attempts under way.
        package var running = 0
        /// Deliveries waiting in the worker's memory.
        package var waiting = 0
        /// Attempts that ended, per second.
        package var attempts = 0.0
        /// Failed attempts per second.
        package var failed = 0.0
        /// Failed attempts since the last success, or since the start; nil in rows of older versions.
        package var failedInRow: Int?
        /// The latest failure of the handler itself, as logs name it.
        package var lastFailure: String?

        private enum CodingKeys: String, CodingKey {
            case handler, circuit, running, waiting, attempts, failed, nextProbe, failedInRow, lastFailure
            case isPaused = "paused"
        }
    }

    /// A certificate that a worker has seen or presents.
    package struct Certificate: Sendable, Equatable, Codable {
        /// Its role: `server` and `client` of a sender, `webhook` and `webhook_client` of a handler, `console`.
        package var certificate: String
        /// The sender's id or the handler's name; empty for the console's.
        package var name: String
        /// Its end, in seconds since 1970.
        package var endsAt: Int

        package init(certificate: String, name: String, endsAt: Int) {
            self.certificate = certificate
            self.name = name
            self.endsAt = endsAt
        }
    }

    package var instance: Digest128
    /// Host and process id, as in `deliveries.lease_owner`.
    package var worker: String
    package var version: String
    /// The process's roles: `receive`, `dispatch`, or both.
    package var roles: [String]
    /// How long ago it started.
    package var uptime = Duration.zero
    /// Whether it is shutting down.
    package var isStopping = false
    /// Copies received and not yet settled.
    package var inFlight = 0
    package var streams: [Streams] = []
    /// Its rates since the previous row.
    package var rates = Rates()
    package var handlers: [Handler] = []
    /// The certificates that it has seen.
    package var certificates: [Certificate] = []

    /// A report of a process that has done nothing yet.
    package init(instance: Digest128, worker: String, version: String, roles: [String]) {
        self.instance = instance
        self.worker = worker
        self.version = version
        self.roles = roles
    }

    var streamsJSON: JSONColumn { JSONColumn(encoding: streams) }
    var ratesJSON: JSONColumn { JSONColumn(encoding: rates) }
    var handlersJSON: JSONColumn { JSONColumn(encoding: handlers) }
    var certificatesJSON: JSONColumn { JSONColumn(encoding: certificates) }
}

extension WorkerReport.Streams {
    /// A sender without streams.
    package init(sender: String) { self.init(sender: sender, connecting: 0) }
}

extension WorkerReport.Handler {
    /// A handler that does nothing.
    package init(handler: String, circuit: String) { self.init(handler: handler, circuit: circuit, running: 0) }
}

/// A number that is null in JSON if there is none; rows of older versions lack some.
@propertyWrapper
package struct OrNull: Sendable, Equatable, Codable {
    package var wrappedValue: Double?

    package init(wrappedValue: Double?) { self.wrappedValue = wrappedValue }

    package init(from decoder: any Decoder) throws {
        wrappedValue = try decoder.singleValueContainer().decode(Double?.self)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        // JSON has no other numbers.
        try container.encode(wrappedValue.flatMap { $0.isFinite ? $0 : nil })
    }
}

extension KeyedDecodingContainer {
    func decode(_ type: OrNull.Type, forKey key: Key) throws -> OrNull {
        try decodeIfPresent(type, forKey: key) ?? OrNull(wrappedValue: nil)
    }
}

extension JSONColumn {
    /// A worker's value, with names in snake case; null if JSON can't represent it.
    init(encoding value: some Encodable) {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        self.init(utf8: (try? encoder.encode(value)).map { [UInt8]($0) } ?? [UInt8]("null".utf8))
    }

    /// The value that another worker has encoded; nil if another version wrote it differently.
    func decoded<Value: Decodable>(as type: Value.Type = Value.self) -> Value? {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try? decoder.decode(type, from: Data(utf8))
    }
}
