import NIOCore
import TLSWire
import XMLWire

final class EmulatorCore {
    let configuration: EmulatorConfiguration
    let eventLoop: any EventLoop
    let tlsContext: TLSContext?
    let transcript: LineFile?
    let ackFile: LineFile?
    private(set) var pools: [String: SenderPool] = [:]
    private(set) var connections: [Int: ConnectionHandler] = [:]
    var rules: [FaultRule]
    var counts = Tally()
    var deliveries = 0
    var reader = ClientAckReader()
    var latency: LatencyBook?
    var acks: [AckRecord] = []
    private var accepted = 0
    private var isAccepting = true
    /// Whether no new messages are sent; copies still are.
    var isPaused = false
    private var isChanged = false
    private var waiters: [Int: Waiter] = [:]
    private var waitersMade = 0
    private var tasks: [RepeatedTask] = []
    /// Positions in the lists of odd messages and bad XML.
    var oddities = 0
    var hostilities = 0

    private struct Waiter {
        var condition: @Sendable (EmulatorSnapshot) -> Bool
        var promise: EventLoopPromise<Bool>
        var timeout: Scheduled<Void>
    }

    static let batchBytes = 65_536
    private static let rateInterval = TimeAmount.milliseconds(5)
    private static let violationsKept = 20

    init(_ configuration: EmulatorConfiguration, eventLoop: any EventLoop, tlsContext: TLSContext?) throws {
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.tlsContext = tlsContext
        transcript = try configuration.transcript.map { try LineFile(path: $0, name: "the transcript file") }
        ackFile = try configuration.acks.map { try LineFile(path: $0, name: "the file of acks") }
        rules = configuration.faults.rules
        latency = configuration.latencySampling.map { LatencyBook(every: $0) }
        startTasks()
    }

    func streamID(_ connection: Int) -> String {
        String(SplitMix.mix(configuration.load.seed &+ UInt64(connection)), radix: 16)
    }

    func resource(_ connection: Int) -> String { "R" + streamID(connection).prefix(8) }

    func makeTLSHandler() throws -> TLSHandler {
        guard let tlsContext else { throw EmulatorError(message: "this emulator has no certificate") }
        return try TLSHandler(context: tlsContext)
    }

    func accept(_ channel: any Channel) throws {
        guard isAccepting else { throw ChannelError.ioOnClosedChannel }
        accepted += 1
        counts.connections += 1
        let number = accepted
        let faults = rules.due(atConnection: number)
        let connection = ConnectionHandler(
            number: number,
            core: self,
            negotiation: ServerNegotiation(configuration, refusesAll: faults.contains(.refuse)),
            faults: faults,
            stream: XMLStreamHandler()
        )
        connections[number] = connection
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(connection.cutter)
        if configuration.security == .direct { try pipeline.addHandler(makeTLSHandler()) }
        if transcript != nil { try pipeline.addHandler(TranscriptTap(connection)) }
        try pipeline.addHandlers([connection.stream, connection])
        changed()
    }

    func bind(_ connection: ConnectionHandler, sender: String) {
        let pool = pools[sender] ?? SenderPool(sender: sender, configuration: configuration)
        pools[sender] = pool
        connection.pool = pool
        connection.slot = pool.book.open()
        pool.connections.append(connection)
        counts.bound += 1
        // A draining connection gets no more messages once another is bound.
        for other in pool.connections {
            if case .draining = other.phase { other.phase = .draining(messages: 0) }
            finishDraining(other)
        }
        changed()
        let wasStarted = pool.isStarted
        pool.startIfReady()
        for other in wasStarted ? [connection] : pool.connections { pump(other) }
    }

    /// Forgets a closed connection; its unacked messages wait for the next one.
    func closed(_ connection: ConnectionHandler) {
        connection.phase = .closed
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        if let pool = connection.pool {
            pool.book.close(connection.slot)
            pool.connections.removeAll { $0 === connection }
        }
        changed()
    }

    /// Ends a draining connection once nothing is left to send or to ack.
    func finishDraining(_ connection: ConnectionHandler) {
        guard configuration.closesDrained, connection.phase == .draining(messages: 0), let pool = connection.pool,
            pool.book.unacked(on: connection.slot) == 0
        else { return }
        connection.end()
    }

    /// Counts something; a violation by a connection's peer is kept in words too.
    func count(_ counter: WritableKeyPath<Tally, Int>, _ violation: String? = nil, on connection: ConnectionHandler) {
        counts[keyPath: counter] += 1
        if let violation, counts.violations.count < Self.violationsKept {
            counts.violations.append("connection \(connection.number): \(violation)")
        }
        changed()
    }

    /// Fills the connection's window, with many stanzas in one write.
    func pump(_ connection: ConnectionHandler) {
        guard connection.canDeliver, let pool = connection.pool, pool.book.hasMore else { return }
        var batch = ByteBuffer()
        while pool.book.unacked(on: connection.slot) < configuration.window, batch.readableBytes < Self.batchBytes,
            connection.canDeliver
        {
            // Before a message is taken: a write may reveal that the connection is gone, and the message would be lost.
            let faults = rules.due(atDelivery: deliveries + 1)
            if batch.readableBytes > 0, !faults.isEmpty {
                connection.write(batch)
                batch.clear()
                continue
            }
            guard let next = pool.book.next(fresh: !isPaused && pool.permits >= 1) else { break }
            if next.isFirst { pool.permits -= 1 }
            if faults.isEmpty {
                append(next.sequence, isFirst: next.isFirst, on: connection, to: &batch)
            } else {
                deliver(next.sequence, isFirst: next.isFirst, on: connection, faults: faults)
            }
        }
        guard batch.readableBytes > 0 else { return }
        connection.write(batch)
        // The batch, not the window, was full: continue after this write.
        if batch.readableBytes >= Self.batchBytes { eventLoop.assumeIsolated().execute { self.pump(connection) } }
        changed()
    }

    /// Encodes a copy and records it.
    func append(_ sequence: Int, isFirst: Bool, on connection: ConnectionHandler, to batch: inout ByteBuffer) {
        guard let pool = connection.pool else { return }
        deliveries += 1
        pool.book.delivered(sequence, on: connection.slot, isFirst: isFirst)
        if case .draining(let messages) = connection.phase { connection.phase = .draining(messages: messages - 1) }
        if sequence < 0 {
            batch.writeBytes(pool.book.special(sequence).stanza)
        } else {
            pool.generator.append(sequence, copy: isFirst ? 0 : connection.number, to: &batch)
            latency?.delivered(sequence)
        }
    }

    private func startTasks() {
        if let rate = configuration.load.rate {
            let share = rate * Double(Self.rateInterval.nanoseconds) / 1e9
            var last = NIODeadline.now()
            every(Self.rateInterval) {
                let now = NIODeadline.now()
                let due = share * Double((now - last).nanoseconds) / Double(Self.rateInterval.nanoseconds)
                last = now
                for pool in self.pools.values { self.allow(due, limit: max(rate, 1), pool) }
            }
        }
        if let interval = configuration.whitespaceInterval {
            every(interval) {
                for connection in self.connections.values where connection.pool != nil { connection.write(" ") }
            }
        }
        if transcript != nil || ackFile != nil { every(.milliseconds(500)) { self.flushFiles() } }
    }

    private func every(_ interval: TimeAmount, _ body: @escaping () -> Void) {
        let body = NIOLoopBound(body, eventLoop: eventLoop)
        tasks.append(eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in body.value() })
    }

    /// Releases new messages at the rate, over the connections in turn.
    private func allow(_ due: Double, limit: Double, _ pool: SenderPool) {
        guard pool.isStarted, !pool.connections.isEmpty else { return }
        pool.permits = min(pool.permits + due, limit)
        let all = pool.permits.rounded(.down)
        let share = max(1, (all / Double(pool.connections.count)).rounded(.up))
        var rest = pool.permits
        for _ in pool.connections where rest >= 1 {
            pool.turn += 1
            guard !pool.connections.isEmpty else { break }
            let connection = pool.connections[pool.turn % pool.connections.count]
            let part = min(share, rest)
            pool.permits = part
            pump(connection)
            rest -= part - pool.permits
        }
        pool.permits = rest
    }

    func stop() {
        isAccepting = false
        for task in tasks { task.cancel() }
        tasks.removeAll()
        for connection in connections.values { connection.close() }
        for (id, _) in waiters { settle(id, false) }
        flushFiles()
    }

    private func flushFiles() {
        transcript?.flush()
        ackFile?.flush()
    }

    var tally: Tally {
        var tally = counts
        tally.open = connections.count
        tally.deliveries = deliveries
        for pool in pools.values {
            tally.sent += pool.book.distinct
            tally.acked += pool.book.ackedDistinct
            tally.ackedCopies += pool.book.ackedCopies
            tally.unackedCopies += pool.book.unackedCopies
        }
        return tally
    }

    var snapshot: EmulatorSnapshot {
        EmulatorSnapshot(
            tally: tally,
            connections: connections.values.sorted { $0.number < $1.number }.map { connection in
                EmulatorSnapshot.Connection(
                    number: connection.number,
                    sender: connection.pool?.sender,
                    isDraining: { if case .draining = connection.phase { true } else { false } }(),
                    unacked: connection.pool?.book.unacked(on: connection.slot) ?? 0
                )
            },
            isComplete: !pools.isEmpty && pools.values.allSatisfy(\.book.isComplete)
        )
    }

    /// A future that is true as soon as the condition holds, or false at the time limit.
    func wait(_ limit: TimeAmount, _ condition: @escaping @Sendable (EmulatorSnapshot) -> Bool) -> EventLoopFuture<Bool>
    {
        if condition(snapshot) { return eventLoop.makeSucceededFuture(true) }
        waitersMade += 1
        let id = waitersMade
        let timeout = eventLoop.assumeIsolated().scheduleTask(in: limit) { self.settle(id, false) }
        let promise = eventLoop.makePromise(of: Bool.self)
        waiters[id] = Waiter(condition: condition, promise: promise, timeout: timeout)
        return promise.futureResult
    }

    /// Checks the waiters soon, once for many changes.
    func changed() {
        guard !waiters.isEmpty, !isChanged else { return }
        isChanged = true
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(1)) {
            self.isChanged = false
            let snapshot = self.snapshot
            for (id, waiter) in self.waiters where waiter.condition(snapshot) { self.settle(id, true) }
        }
    }

    private func settle(_ id: Int, _ result: Bool) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        waiter.timeout.cancel()
        waiter.promise.succeed(result)
    }
}
