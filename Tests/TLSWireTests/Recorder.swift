import NIOCore
import Synchronization

@testable import TLSWire

/// What a handler behind TLS has seen.
struct Seen: Sendable {
    var established: [TLSEvent] = []
    var closedCleanly = 0
    var bytes: [UInt8] = []
    var reads = 0
    var errors: [any Error] = []
    var isInactive = false

    /// The codes of the errors that are TLS errors.
    var codes: [TLSError.Code] { self.errors.compactMap { ($0 as? TLSError)?.code } }
    /// The messages of the errors that are TLS errors.
    var messages: String { self.errors.compactMap { ($0 as? TLSError)?.message }.joined(separator: "\n") }
}

struct Deadline: Error, CustomStringConvertible {
    var description: String
}

/// Records everything that reaches the application's side, and lets a test wait for it.
final class Recorder: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    private struct Waiter {
        var condition: @Sendable (Seen) -> Bool
        var promise: EventLoopPromise<Void>
    }

    private struct State {
        var seen = Seen()
        var waiters: [Waiter] = []
    }

    private let state = Mutex(State())

    var seen: Seen { self.state.withLock { $0.seen } }

    func note(_ change: (inout Seen) -> Void) {
        let fulfilled = self.state.withLock { state -> [Waiter] in
            change(&state.seen)
            let seen = state.seen
            let met = state.waiters.filter { $0.condition(seen) }
            state.waiters.removeAll { $0.condition(seen) }
            return met
        }
        for waiter in fulfilled {
            waiter.promise.succeed()
        }
    }

    /// Waits until the condition holds, for ten seconds at most.
    func wait(
        on loop: any EventLoop,
        _ what: String,
        until condition: @escaping @Sendable (Seen) -> Bool
    ) async throws {
        let promise = loop.makePromise(of: Void.self)
        let met = self.state.withLock { state -> Bool in
            guard !condition(state.seen) else { return true }
            state.waiters.append(Waiter(condition: condition, promise: promise))
            return false
        }
        if met {
            promise.succeed()
        }
        let timer = loop.scheduleTask(in: .seconds(10)) {
            promise.fail(Deadline(description: "waited in vain for: \(what); errors: \(self.seen.errors)"))
        }
        try await promise.futureResult.get()
        timer.cancel()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = self.unwrapInboundIn(data)
        self.note {
            $0.reads += 1
            $0.bytes += buffer.readableBytesView
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event as? TLSEvent {
        case .established: self.note { if let event = event as? TLSEvent { $0.established.append(event) } }
        case .closedCleanly: self.note { $0.closedCleanly += 1 }
        case nil: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.note { $0.errors.append(error) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.note { $0.isInactive = true }
    }
}
