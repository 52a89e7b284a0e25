import Postgres
package import Vocabulary

/// What a worker tells of itself, in `upstream.workers`.
package struct WorkerReport: Sendable, Equatable {
    /// A sender's streams in one worker.
    package struct Streams: Sendable, Equatable, Decodable {
        /// The sender's id.
        package var sender: String
        /// How many are being opened.
        package var connecting: Int
        /// How many receive.
        package var bound: Int
        /// How many receive until their successor does.
        package var draining: Int

        package init(sender: String, connecting: Int, bound: Int, draining: Int) {
            self.sender = sender
            self.connecting = connecting
            self.bound = bound
            self.draining = draining
        }
    }

    /// What a worker did between two rows.
    package struct Rates: Sendable, Equatable, Decodable {
        /// The time between the rows, in seconds; 0 in the first one.
        package var seconds = 0.0
        /// Copies received per second: messages, receipts and malformed ones.
        package var received = 0.0
        /// New messages per second.
        package var stored = 0.0
        /// Known messages per second.
        package var duplicates = 0.0
        /// Acks sent per second.
        package var acked = 0.0
        /// Deliveries done per second, over all handlers.
        package var handled = 0.0
        /// The time that half of the acks took at most, in seconds, to the width of a histogram's bucket; nil without acks.
        package var ackP50: Double?
        /// The time that 99 % of the acks took at most, likewise.
        package var ackP99: Double?
        /// By how many seconds the machine's clock is ahead of the database's; nil where that is not known.
        package var clockAhead: Double?

        package init() {}

        private enum CodingKeys: String, CodingKey {
            case seconds, received, stored, duplicates, acked, handled
            case ackP50 = "ack_p50"
            case ackP99 = "ack_p99"
            case clockAhead = "clock_ahead"
        }
    }

    /// A handler in one worker.
    package struct Handler: Sendable, Equatable, Decodable {
        /// The name.
        package var handler: String
        /// The state of its circuit breaker: `closed`, `open` or `half_open`.
        package var circuit: String
        /// In how many seconds from the heartbeat the next probe may begin; nil where the circuit is not open.
        package var nextProbe: Double?
        /// Whether this worker knows it to be paused.
        package var isPaused: Bool
        /// Attempts under way.
        package var running: Int
        /// Deliveries that wait in the worker's memory.
        package var waiting: Int
        /// Attempts that ended, per second.
        package var attempts: Double
        /// Those of them that did not succeed, per second.
        package var failed: Double
        /// Those since the last one that succeeded, or since the start; nil in a row of a version that did not tell.
        package var failedInRow: Int?

        package init(
            handler: String,
            circuit: String,
            nextProbe: Double?,
            isPaused: Bool,
            running: Int,
            waiting: Int,
            attempts: Double,
            failed: Double,
            failedInRow: Int? = nil
        ) {
            self.handler = handler
            self.circuit = circuit
            self.nextProbe = nextProbe
            self.isPaused = isPaused
            self.running = running
            self.waiting = waiting
            self.attempts = attempts
            self.failed = failed
            self.failedInRow = failedInRow
        }

        private enum CodingKeys: String, CodingKey {
            case handler, circuit, running, waiting, attempts, failed
            case nextProbe = "next_probe"
            case isPaused = "paused"
            case failedInRow = "failed_in_row"
        }
    }

    /// A certificate that a worker has seen, or shows.
    package struct Certificate: Sendable, Equatable, Decodable {
        /// Whose it is: `server` and `client` of a sender, `webhook` and `webhook_client` of a handler, `console`.
        package var certificate: String
        /// The sender's id or the handler's name; empty for the console's.
        package var name: String
        /// When it ends, in seconds since 1970.
        package var endsAt: Int

        package init(certificate: String, name: String, endsAt: Int) {
            self.certificate = certificate
            self.name = name
            self.endsAt = endsAt
        }

        private enum CodingKeys: String, CodingKey {
            case certificate, name
            case endsAt = "ends_at"
        }
    }

    /// Names the process; made anew at each start.
    package var instance: Digest128
    /// Host and process id, as in `deliveries.lease_owner`.
    package var worker: String
    /// The binary's version.
    package var version: String
    /// What the process does.
    package var roles: [String]
    /// How long ago it started.
    package var uptime = Duration.zero
    /// Whether it is shutting down.
    package var isStopping = false
    /// Copies received and not yet settled.
    package var inFlight = 0
    /// By sender.
    package var streams: [Streams] = []
    /// What it did since the row before.
    package var rates = Rates()
    /// Its handlers.
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

    var streamsJSON: JSONColumn {
        JSONColumn.array(of: streams) { json, streams in
            json.member("sender", streams.sender)
            json.member("connecting", streams.connecting)
            json.member("bound", streams.bound)
            json.member("draining", streams.draining)
        }
    }

    var ratesJSON: JSONColumn {
        var json = JSONWriter()
        json.beginObject()
        json.member("seconds", number: rates.seconds)
        json.member("received", number: rates.received)
        json.member("stored", number: rates.stored)
        json.member("duplicates", number: rates.duplicates)
        json.member("acked", number: rates.acked)
        json.member("handled", number: rates.handled)
        json.member("ack_p50", number: rates.ackP50)
        json.member("ack_p99", number: rates.ackP99)
        json.member("clock_ahead", number: rates.clockAhead)
        json.endObject()
        return JSONColumn(utf8: json.finish())
    }

    var certificatesJSON: JSONColumn {
        JSONColumn.array(of: certificates) { json, certificate in
            json.member("certificate", certificate.certificate)
            json.member("name", certificate.name)
            json.member("ends_at", certificate.endsAt)
        }
    }

    var handlersJSON: JSONColumn {
        JSONColumn.array(of: handlers) { json, handler in
            json.member("handler", handler.handler)
            json.member("circuit", handler.circuit)
            json.member("next_probe", number: handler.nextProbe)
            json.name("paused")
            json.bool(handler.isPaused)
            json.member("running", handler.running)
            json.member("waiting", handler.waiting)
            json.member("attempts", number: handler.attempts)
            json.member("failed", number: handler.failed)
            if let count = handler.failedInRow { json.member("failed_in_row", count) }
        }
    }
}

extension JSONColumn {
    /// An array with an object for each of some values.
    fileprivate static func array<Value>(of values: [Value], _ members: (inout JSONWriter, Value) -> Void) -> JSONColumn
    {
        var json = JSONWriter()
        json.beginArray()
        for value in values {
            json.beginObject()
            members(&json, value)
            json.endObject()
        }
        json.endArray()
        return JSONColumn(utf8: json.finish())
    }
}

extension JSONWriter {
    /// Writes a member with a number; null for nil, and for what JSON has no number for.
    fileprivate mutating func member(_ name: StaticString, number: Double?) {
        self.name(name)
        if let number { self.number(number) } else { null() }
    }
}
