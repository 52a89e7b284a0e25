import CCSEmulator
import EmulatorSupport
import Ingest
import IntegrationSupport
import NIOCore
import NIOPosix
import Synchronization
import TLSWire
import Telemetry
import Testing

@testable import XMPPSession

/// A service whose connections are real ones, to an emulator.
@Suite("The connections of a sender, from the first to the last goodbye", .timeLimit(.minutes(10)))
final class ConnectionSlotTests: Sendable {
    private let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    private let ingest = IngestQueue()
    private let hasReturned = Atomic(false)

    /// An emulator that neither closes what drains nor sends more than it is told to.
    private func emulator() async throws -> Emulator {
        var configuration = EmulatorConfiguration()
        configuration.closesDrained = false
        configuration.stanzaFrom = nil
        configuration.load = LoadProfile(count: 0)
        return try await Emulator.start(configuration)
    }

    private func settings(_ emulator: Emulator, connections: Int) async throws -> SenderSettings {
        var client = TLSClientConfiguration(serverName: "localhost")
        client.trust = .pem(try #require(emulator.authorityPEM))
        var settings = try await Bench.settings()
        settings.port = emulator.port
        settings.connections = connections
        settings.security = .direct(try TLSContext.client(client))
        return settings
    }

    /// Waits until the worker, too, knows that its streams are bound: one that opens has no goodbye to say.
    private func waitUntilBound(draining: Int = 0, _ bound: Int) async throws {
        try await waitUntil("\(bound) bound, \(draining) draining") {
            metrics.connections(sender: 0, state: .bound).value == bound
                && metrics.connections(sender: 0, state: .draining).value == draining
        }
    }

    /// Runs a service until the body is done, cancels it, and waits for its return, but not for ever.
    private func withService(
        _ settings: SenderSettings,
        _ body: () async throws -> Void
    ) async throws {
        let service = SenderService(
            settings: settings,
            group: MultiThreadedEventLoopGroup.singleton,
            environment: Connection.Environment(ingest: ingest, clock: ArrivalClock(), metrics: metrics),
            logger: .quiet
        )
        let running = Task {
            await service.run()
            self.hasReturned.store(true, ordering: .releasing)
        }
        defer { running.cancel() }
        try await body()
        running.cancel()
        try await waitUntil("the service returns", limit: .seconds(180)) { hasReturned.load(ordering: .acquiring) }
        #expect(ConnectionState.allCases.allSatisfy { metrics.connections(sender: 0, state: $0).value == 0 })
    }

    /// Waits until all connections are gone, each in order, and stops the emulator.
    private func expectGoodbyes(_ count: Int, from emulator: Emulator) async throws {
        // A connection is off the list before its close_notify has come.
        try await emulator.wait(for: "their ends") { $0.connections.isEmpty && $0.tally.orderlyEnds == count }
        let tally = await emulator.stop()
        #expect(tally.isClean && tally.acked == 0 && tally.orderlyEnds == count, "\(tally.summary)")
    }

    @Test("cancelled, it says goodbye on each connection, and returns when all have closed")
    func goodbyes() async throws {
        let emulator = try await emulator()
        try await withService(try await settings(emulator, connections: 3)) {
            try await emulator.wait(for: "three connections") { $0.bound.count == 3 }
            try await waitUntilBound(3)
        }
        try await expectGoodbyes(3, from: emulator)
    }

    @Test("more connections than may open at once wait their turn, and all are bound in the end")
    func moreThanMayOpen() async throws {
        let emulator = try await emulator()
        try await withService(try await settings(emulator, connections: 3 * OpeningGate.limit)) {
            try await emulator.wait(for: "all of them") { $0.bound.count == 3 * OpeningGate.limit }
            try await waitUntilBound(3 * OpeningGate.limit)
        }
        try await expectGoodbyes(3 * OpeningGate.limit, from: emulator)
    }

    @Test("cancelled while some wait for an answer, and the others for their turn, it returns")
    func cancelledWhileOpening() async throws {
        let silent = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        var settings = try await Bench.settings()
        settings.port = try #require(silent.localAddress?.port)
        settings.connections = 3 * OpeningGate.limit
        try await withService(settings) {
            try await waitUntil("some are connecting") {
                metrics.connections(sender: 0, state: .connecting).value >= OpeningGate.limit
            }
        }
        try await silent.close().get()
    }

    @Test("a draining connection is kept beside its successor, and shut down with it")
    func drainingIsShutDown() async throws {
        let emulator = try await emulator()
        try await withService(try await settings(emulator, connections: 1)) {
            try await emulator.wait(for: "a connection") { $0.bound.count == 1 }
            try await emulator.inject(.drain)
            try await emulator.wait(for: "its successor") { $0.bound.map(\.isDraining) == [true, false] }
            try await waitUntilBound(draining: 1, 1)
        }
        try await expectGoodbyes(2, from: emulator)
    }

    @Test("of more than two that drain, the oldest is closed, and the next opens once it is gone")
    func oldestGoes() async throws {
        let emulator = try await emulator()
        try await withService(try await settings(emulator, connections: 1)) {
            for number in 1...3 {
                try await emulator.wait(for: "connection \(number)") { $0.bound.last?.number == number }
                try await emulator.inject(.drain, on: number)
            }
            try await emulator.wait(for: "the oldest to go") { $0.bound.map(\.number) == [2, 3, 4] }
            try await waitUntilBound(draining: 2, 1)
        }
        try await expectGoodbyes(4, from: emulator)
    }
}
