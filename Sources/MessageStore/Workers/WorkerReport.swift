import Postgres
package import Vocabulary

/// A worker's report about itself, in `upstream.workers`.
package struct WorkerReport: Sendable, Equatable {
    /// A sender's streams in one worker.
    package struct Streams: Sendable, Equatable, Decodable {
        package var sender: String
        /// Streams being opened.
        package var connecting = 0
        /// Streams that receive.
        package var bound = 0
        /// Streams that receive until their successor does.
        package var draining = 0
    }

    /// A worker's rates between two rows.
    package struct Rates: Sendable, Equatable, Decodable {
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
        package var ackP50: Double?
        /// The 99th percentile of it.
        package var ackP99: Double?
        /// How many seconds the machine's clock is ahead of the database's; nil if unknown.
        package var clockAhead: Double?

        package init() {}
    }

    /// A handler in one worker.
    package struct Handler: Sendable, Equatable, Decodable {
        package var handler: String
        /// The state of its circuit breaker: `closed`, `open` or `half_open`.
        package var circuit: String
        /// Seconds from the heartbeat until the next probe may begin; nil if the circuit is not open.
        package var nextProbe: Double?
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
        /// Failures since the last success, or since the start; nil in rows of older versions.
        package var failedInRow: Int?

        private enum CodingKeys: String, CodingKey {
            case handler, circuit, running, waiting, attempts, failed, nextProbe, failedInRow
            case isPaused = "paused"
        }
    }

    /// A certificate that a worker has seen or presents.
    package struct Certificate: Sendable, Equatable, Decodable {
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

extension WorkerReport.Streams {
    /// A sender without streams.
    package init(sender: String) { self.init(sender: sender, connecting: 0) }
}

extension WorkerReport.Handler {
    /// A handler that does nothing.
    package init(handler: String, circuit: String) { self.init(handler: handler, circuit: circuit, running: 0) }
}

extension JSONColumn {
    /// An array with an object for each value.
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
    /// Writes a number; null for nil, and for what JSON can't represent.
    fileprivate mutating func member(_ name: StaticString, number: Double?) {
        self.name(name)
        if let number { self.number(number) } else { null() }
    }
}
