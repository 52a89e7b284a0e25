package import NIOCore
import NIOPosix
import Synchronization

/// A CCS-compatible server on one event loop, for development, tests and load.
package final class Emulator: Sendable {
    package let port: Int
    /// The authority that a client must trust, in PEM; nil unless the certificate was made for this run.
    package let authorityPEM: [UInt8]?

    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    private let core: NIOLoopBound<EmulatorCore>
    private let final = Mutex<Tally?>(nil)

    private init(
        group: MultiThreadedEventLoopGroup,
        listener: any Channel,
        core: NIOLoopBound<EmulatorCore>,
        authorityPEM: [UInt8]?
    ) {
        self.group = group
        self.listener = listener
        self.core = core
        self.authorityPEM = authorityPEM
        port = listener.localAddress?.port ?? 0
    }

    /// Starts an emulator; the caller must ``stop()`` it.
    package static func start(_ configuration: EmulatorConfiguration) async throws -> Emulator {
        let problems = configuration.load.problems + (configuration.window < 1 ? ["window must be 1 or more"] : [])
        guard problems.isEmpty else { throw EmulatorError(message: problems.joined(separator: "; ")) }
        let (context, authorityPEM) = try configuration.makeIdentity()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        do {
            let core = try await eventLoop.submit {
                let core = try EmulatorCore(configuration, eventLoop: eventLoop, tlsContext: context)
                return NIOLoopBound(core, eventLoop: eventLoop)
            }.get()
            let listener = try await ServerBootstrap(group: group)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .serverChannelOption(.backlog, value: 1024)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try core.value.accept(channel) }
                }
                .bind(host: configuration.host, port: configuration.port).get()
            return Emulator(group: group, listener: listener, core: core, authorityPEM: authorityPEM)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
    }

    /// Closes the listener and every connection; returns the counts from before that, also at a second call.
    @discardableResult
    package func stop() async -> Tally {
        if let last = final.withLock({ $0 }) { return last }
        let last = await tally()
        final.withLock { $0 = last }
        try? await listener.close().get()
        try? await onLoop { $0.stop() }
        try? await group.shutdownGracefully()
        return last
    }

    /// Sends no new message any more, and waits five seconds at most for the acks of those under way.
    package func pause() async {
        try? await onLoop { $0.isPaused = true }
        try? await wait(for: "every ack", limit: .seconds(5)) { $0.tally.neverAcked == 0 }
    }

    package func tally() async -> Tally {
        if let last = final.withLock({ $0 }) { return last }
        return (try? await onLoop { $0.tally }) ?? Tally()
    }

    package func snapshot() async throws -> EmulatorSnapshot { try await onLoop { $0.snapshot } }

    /// Waits until a condition holds, checking after every change; `what` describes it for the error.
    package func wait(
        for what: String,
        limit: TimeAmount = .seconds(180),
        until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool
    ) async throws {
        let core = self.core
        let isMet = listener.eventLoop.flatSubmit { core.value.wait(limit, condition) }
        guard try await !isMet.get() else { return }
        let tally = await tally()
        throw EmulatorError(message: "not within \(limit.nanoseconds / 1_000_000) ms: \(what)\n\(tally.summary)")
    }

    package func waitUntilComplete(limit: TimeAmount = .seconds(180)) async throws {
        try await wait(for: "every message acked", limit: limit) { $0.isComplete }
    }

    /// The latencies in seconds from delivery to first ack, measured since the last call.
    package func takeLatencies() async throws -> [Double] { try await onLoop { $0.latency?.take() ?? [] } }

    /// Runs a call on the event loop, which owns the emulator's state.
    func onLoop<T: Sendable>(_ body: @escaping @Sendable (EmulatorCore) throws -> T) async throws -> T {
        let core = self.core
        return try await listener.eventLoop.submit { try body(core.value) }.get()
    }
}

/// An emulator failed to start, or a wait timed out.
package struct EmulatorError: Error, Sendable, CustomStringConvertible {
    package var message: String

    package var description: String { message }
}
