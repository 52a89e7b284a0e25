import Logging
import NIOCore
import NIOPosix
import Replaying
import Telemetry
import UpstreamKit
import Vocabulary
import XMPP
import XMPPSession

/// An XMPP endpoint as a target: a message is done once the worker behind it acks it, and resent until then.
actor EndpointSink: ReplaySink {
    private let settings: EndpointSettings
    private let progress: ReplayProgress
    private let logger: Logger
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private var window: AckWindow
    private let skippedBefore: Int64
    private var channel: (any Channel)?
    private var failure: ReplayError?
    private var isFinishing = false
    private var lastAck = ContinuousClock.now
    /// Consecutive connections that brought no ack.
    private var attemptsWithoutAck = 0
    private var waiters: [Promise<Void>] = []

    init(
        _ settings: EndpointSettings,
        from start: ReplayLease.Position,
        window: Int,
        progress: ReplayProgress,
        logger: Logger
    ) {
        self.settings = settings
        self.progress = progress
        self.logger = logger
        self.window = AckWindow(from: start.done, limit: max(1, window))
        skippedBefore = start.skipped
    }

    // MARK: Messages

    func send(_ items: [ReplayItem]) async throws {
        var unsent: [UInt8] = []
        for item in items {
            while !window.hasRoom {
                write(unsent)
                unsent = []
                try await waitForChange()
            }
            guard let message = try item.message() else {
                window.skip()
                continue
            }
            let stanza = ReplayStanza.stanza(message, to: settings.connection.stream.address, id: "r\(item.position)")
            if window.inFlight == 0 { lastAck = .now }
            let key = AckWindow.Key(id: message.messageID.utf8, token: message.registrationToken.rawValue.utf8)
            window.add(key, stanza: stanza)
            // Without a channel, the next connection begins with what is unacked.
            if channel != nil { unsent += stanza }
            if unsent.count >= 1 << 16 {
                write(unsent)
                unsent = []
            }
        }
        write(unsent)
        if let failure { throw failure }
    }

    func finish() async throws {
        while window.inFlight > 0 { try await waitForChange() }
        isFinishing = true
        guard let channel else { return }
        // The session bounds the wait for the peer's closing tag.
        StreamHandler<EndpointStream>.shutDown(channel)
        try? await channel.closeFuture.get()
    }

    func position() throws -> ReplayLease.Position {
        if window.inFlight > 0, channel != nil, ContinuousClock.now - lastAck > settings.ackTimeout {
            lastAck = .now
            note("no ack came for \(settings.ackTimeout): sending again over another connection")
            channel?.close(promise: nil)
        }
        return ReplayLease.Position(done: window.done, skipped: skippedBefore + window.skipped, bytes: 0)
    }

    private func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, let channel else { return }
        channel.writeAndFlush(channel.allocator.buffer(bytes: bytes), promise: nil)
    }

    // MARK: Connections

    func run() async {
        var policy = ReconnectPolicy()
        while !Task.isCancelled, failure == nil, !isFinishing {
            let acked = window.done
            var end: SessionEnd?
            await withTaskCancellationHandler {
                for await event in EndpointStream.open(settings.connection, on: group.next()) {
                    if let last = handle(event) { end = last }
                }
            } onCancel: {
                Task { await self.hangUp() }
            }
            channel = nil
            guard let end, !Task.isCancelled, !isFinishing else { break }
            attemptsWithoutAck = window.done > acked ? 0 : attemptsWithoutAck + 1
            note(end.message)
            if end.isFinal || attemptsWithoutAck >= settings.attempts {
                failure = ReplayError(end.isFinal ? .denied : .unavailable, end.message)
                changed()
                break
            }
            let delay = policy.delay(after: end.ending, random: .random(in: 0..<1))
            try? await Task.sleep(for: delay)
        }
        changed()
    }

    private func handle(_ event: EndpointEvent) -> SessionEnd? {
        switch event {
        case .bound(let bound):
            // Closed while the connection was being made.
            guard !isFinishing, !Task.isCancelled else {
                bound.close(promise: nil)
                return nil
            }
            channel = bound
            lastAck = .now
            progress.set { $0.waiting = nil }
            logger.event(.info, .replayEndpoint, "bound to the replay's target")
            write(window.unacked.reduce(into: []) { $0 += $1 })
        case .acks(let keys):
            var isNew = false
            for key in keys where window.acked(key) { isNew = true }
            if isNew {
                lastAck = .now
                changed()
            }
        case .ended(let end):
            channel = nil
            return end
        }
        return nil
    }

    private func note(_ message: String) {
        progress.set { $0.waiting = "retrying: \(message)" }
        let fields: LogFields = [.error: .string(message)]
        logger.event(.warning, .replayEndpoint, "the connection to the replay's target ended", fields)
    }

    private func hangUp() { channel?.close(promise: nil) }

    func close() async {
        isFinishing = true
        changed()
        if let channel {
            StreamHandler<EndpointStream>.shutDown(channel)
            try? await channel.closeFuture.get()
        }
        try? await group.shutdownGracefully()
    }

    // MARK: Waiting

    private func changed() {
        let waiters = waiters
        self.waiters = []
        for waiter in waiters { waiter.fulfil() }
    }

    /// Waits for an ack or a failure.
    private func waitForChange() async throws {
        if let failure { throw failure }
        try Task.checkCancellation()
        let promise = Promise<Void>()
        waiters.append(promise)
        await promise.waitUnlessCancelled()
        if let failure { throw failure }
        try Task.checkCancellation()
    }
}
