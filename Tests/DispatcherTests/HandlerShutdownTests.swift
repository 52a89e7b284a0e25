import Dispatcher
import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit

/// How handlers are shut down.
@Suite(.timeLimit(.minutes(5))) struct HandlerShutdownTests {
    /// Whose shutdown takes until the other's has begun.
    private final class Waiting: UpstreamHandler {
        private let began: AsyncStream<Void>.Continuation
        private let otherBegan: AsyncStream<Void>
        private let ended = Mutex(false)

        init(began: AsyncStream<Void>.Continuation, otherBegan: AsyncStream<Void>) {
            (self.began, self.otherBegan) = (began, otherBegan)
        }

        var hasEnded: Bool { ended.withLock { $0 } }

        func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome { .done }

        func shutdown() async {
            began.finish()
            for await _ in otherBegan {}
            ended.withLock { $0 = true }
        }
    }

    @Test("Handlers are shut down side by side, so that one that is slow takes no time of the others")
    func sideBySide() async {
        let (first, second) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
        let handlers = [
            Waiting(began: first.continuation, otherBegan: second.stream),
            Waiting(began: second.continuation, otherBegan: first.stream),
        ]
        let service = DispatchService(
            store: CountedDeliveries(),
            registrations: [
                HandlerRegistration("a", categories: .all, handler: handlers[0]),
                HandlerRegistration("b", categories: .all, handler: handlers[1]),
            ],
            senderIDs: [],
            settings: DispatchSettings(),
            metrics: Metrics(senders: [], categories: [], handlers: ["a", "b"], version: "test"),
            logger: .quiet,
            execute: { _, calls in CallEnd(calls.map { _ in .verdict(.done) }) }
        )
        service.beginShutdown()
        await service.run()
        #expect(handlers.allSatisfy { $0.hasEnded })
    }
}
