import Dispatcher
import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// A table whose rows take long to count.
private final class SlowlyCounted: QuietDeliveries {
    private let counts = Mutex((kept: 0, counted: 0))
    private let time: ManualTime

    init(_ time: ManualTime) { self.time = time }

    var kept: Int { counts.withLock(\.kept) }
    var counted: Int { counts.withLock(\.counted) }

    func keep(_ handlers: [String]) async throws(StoreError) { counts.withLock { $0.kept += 1 } }

    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] {
        counts.withLock { $0.counted += 1 }
        time.pass(.seconds(5))
        return []
    }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] { [] }
    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int { 0 }
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
}

private struct NoHandler: UpstreamHandler {
    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome { .done }
}

@Test(
    "A backlog that takes long to count is counted a twentieth of the time, and the worker says as often that it is alive"
)
func slowBacklog() async {
    let time = ManualTime()
    let store = SlowlyCounted(time)
    let between = DispatchSettings().statistics
    let clock = TimeSource(
        now: { time.instant },
        sleep: { duration in
            guard duration == between else { return try await TimeSource.system.sleep(duration) }
            time.pass(duration)
            try Task.checkCancellation()
            await Task.yield()
        },
        random: { 1 }
    )
    let metrics = Metrics(senders: [], categories: [], handlers: ["now"], version: "test")
    let begin = time.instant
    let service = DispatchService.forOne(NoHandler(), of: store, poll: .seconds(60), metrics: metrics, clock: clock) {
        _ in
    }
    var end = begin
    var counted = 0
    await service.run {
        try await waitUntil("a thousand signs of life") {
            (end, counted) = (time.instant, store.counted)
            return store.kept >= 1_000
        }
    }
    #expect(counted > 10)
    #expect(Duration.seconds(5) * (counted - 1) <= (end - begin) / 20)
}
