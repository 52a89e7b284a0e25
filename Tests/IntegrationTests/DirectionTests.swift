import CCSEmulator
import EmulatorSupport
import IntegrationSupport
import NIOCore
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// Streams of which only one direction works, and peers that don't do what they announced.
    @Suite struct DirectionTests {
        @Test(
            "a stream whose way to the server is dead ends and is replaced, though the server sends on and on",
            arguments: TCPProxy.Silence.allCases
        )
        func deadDirection(_ silence: TCPProxy.Silence) async throws {
            let count = 3000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 500
                $0.whitespaceInterval = .milliseconds(100)
            } _: { stage in
                let proxy = try await TCPProxy.start(toPort: stage.emulator.port)
                let options = WorkerOptions(
                    connections: 1,
                    port: proxy.port,
                    keepalive: "{interval: 1s, timeout: 1s}"
                )
                try await stage.withWorker(options) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 100 }
                    try await proxy.deafen(silence)
                    try await waitUntil("the dead stream is noticed") {
                        worker.metrics.reconnects[.pingTimeout].value == 1
                    }
                    try await stage.wait(for: "its replacement") { $0.tally.bound == 2 }
                    // As its server finds out about the dead one in the end, what that has left comes with the next login.
                    try? await stage.emulator.kill(1, reset: true)
                    try await stage.wait(for: "the dead one's end") { $0.connections.allSatisfy { $0.number != 1 } }
                    try await stage.emulator.kill(2, reset: true)
                    try await stage.waitUntilComplete()
                    let books = try await worker.scrape()
                    #expect(books.received == books.accountedFor)
                }
                #expect(try await stage.database.count("messages") == count)
                await proxy.stop()
            }
        }

        @Test("a peer that reads 8 kB a second keeps its stream while acks move; it ends once nothing moves")
        func slowPeer() async throws {
            let count = 400
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.window = 100_000
            } _: { stage in
                let proxy = try await TCPProxy.start(toPort: stage.emulator.port, rate: 8_000)
                let options = WorkerOptions(connections: 1, port: proxy.port, keepalive: "{interval: 1s, timeout: 2s}")
                try await stage.withWorker(options) { worker in
                    try await waitUntil("all is stored") { worker.settled(.stored) == count }
                    // A ping is sent meanwhile, and waits behind the acks for longer than its time.
                    let stored = ContinuousClock.now
                    try await stage.waitUntilComplete()
                    print("the acks took \(ContinuousClock.now - stored)")
                    #expect(ContinuousClock.now - stored > .seconds(4))
                    #expect(await stage.emulator.tally().connections == 1)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                    try await proxy.deafen(.readsNothing)
                    try await waitUntil("the dead stream is noticed") {
                        worker.metrics.reconnects[.pingTimeout].value == 1
                    }
                }
                #expect(try await stage.database.count("messages") == count)
                await proxy.stop()
            }
        }

        @Test("a peer that drains stream after stream and closes none: the oldest go in order, nothing is lost")
        func endlessDraining() async throws {
            let count = 4000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 300
                $0.drainMessages = 1_000_000
                $0.closesDrained = false
            } _: { stage in
                let emulator = stage.emulator
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    for number in 1...4 {
                        try await stage.wait(for: "stream \(number)") { snapshot in
                            snapshot.bound.contains { $0.number == number }
                        }
                        try await emulator.inject(.drain, on: number)
                        try await stage.wait(for: "its replacement") { $0.tally.connections >= number + 1 }
                    }
                    try await stage.wait(for: "the oldest two are gone") { snapshot in
                        snapshot.tally.bound == 5 && snapshot.connections.allSatisfy { $0.number > 2 }
                    }
                    #expect(worker.metrics.connections(sender: 0, state: .draining).value == DrainingLimit.streams)
                    try await stage.waitUntilComplete()
                    let tally = await emulator.tally()
                    #expect(tally.isClean && tally.streamErrors == 0, "\(tally.summary)")
                    #expect(worker.metrics.acks[.connectionGone].value == 0)
                    #expect(worker.settled(.stored) == count)
                }
                #expect(try await stage.database.count("messages") == count)
            }
        }

        @Test("an id that no ack can carry costs nobody else anything: no stream ends, and it is kept once")
        func oversizedAck() async throws {
            let count = 500
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 500
            } _: { stage in
                let id = String(repeating: "'", count: 20_000)
                let json = #"{"message_id":"\#(id)","from":"FAKE-t","category":"c","data":1}"#
                let other = #"{"message_id":"\#(id)","from":"FAKE-t","category":"c","data":2}"#
                // As long as it may be without being too long to be acked.
                let long = String(repeating: "é木😀", count: 5_000)
                let acked = #"{"message_id":"\#(long)","from":"FAKE-t","category":"c","data":1}"#
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 10 }
                    for json in [json, json, other] {
                        try await stage.emulator.inject(json: json, id: id, to: "FAKE-t", expectsAck: false)
                    }
                    try await stage.emulator.inject(json: acked, id: long, to: "FAKE-t")
                    try await stage.waitUntilComplete()
                    try await waitUntil("all are settled") {
                        worker.settled(.quarantined) == 4 && worker.inFlight == 0
                    }
                    #expect(worker.metrics.acks[.tooLarge].value == 3)
                    let books = try await worker.scrape()
                    #expect(books.received == books.accountedFor)
                    #expect(books.sum("upstream_acks_total", "outcome=\"too_large\"") == 3)
                    #expect(books.sum("upstream_stanzas_received_total", "kind=\"malformed\"") == 3)
                    let tally = await stage.emulator.tally()
                    #expect(tally.isClean && tally.bound == 1 && tally.acked == count + 1, "\(tally.summary)")
                }
                #expect(try await stage.database.count("quarantine") == 2)
                #expect(try await stage.database.integer("SELECT max(times_seen) FROM upstream.quarantine") == 3)
                #expect(try await stage.database.count("quarantine WHERE reason <> 'field_too_long'") == 0)
            }
        }

        @Test("a quarantined stanza that comes again with what a server adds on the way is the same one")
        func delayedAgain() async throws {
            try await Stage.run { stage in
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.wait(for: "a stream") { $0.bound.count == 1 }
                    for number in 1...6 {
                        let (open, close) =
                            number % 2 == 0
                            ? ("<gcm xmlns='google:mobile:data'>", "</gcm>")
                            : ("<g:gcm xmlns:g=\"google:mobile:data\">", "</g:gcm>")
                        let stanza =
                            "<message id='\(number)' from=\"devices@gcm.googleapis.com\">\(open){&quot;a&quot;:1}\(close)"
                            + "<delay xmlns='urn:xmpp:delay' stamp='2026-11-21T00:00:0\(number)Z'/></message>"
                        try await stage.emulator.inject(raw: Array(stanza.utf8))
                    }
                    try await waitUntil("all are settled") { worker.settled(.quarantined) == 6 }
                }
                #expect(try await stage.database.count("quarantine") == 1)
                #expect(try await stage.database.count("quarantine WHERE times_seen = 6") == 1)
            }
        }
    }

    /// What the worker allows a peer.
    enum DrainingLimit {
        static let streams = 2
    }
}
