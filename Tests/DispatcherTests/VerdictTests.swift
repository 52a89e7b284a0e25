import Dispatcher
import Testing
import UpstreamKit

@Suite struct VerdictTests {
    private struct Refused: PermanentFailure {}
    private struct Broken: Error, CustomStringConvertible { let description = "socket 4711 closed" }

    private func verdict(_ body: @escaping @Sendable () throws -> HandlerOutcome) async -> HandlerVerdict {
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        return await .of(ClosureHandler { _, _ in try body() }, message, HandlerContext(handler: "h"))
    }

    @Test("Outcomes and errors become verdicts")
    func judgesOutcomesAndErrors() async {
        #expect(await verdict { .done } == .done)
        #expect(await verdict { .retry() } == .retry(after: nil, HandlerFailure("retry asked for")))
        #expect(
            await verdict { .retry(after: .seconds(5), reason: "busy") }
                == .retry(after: .seconds(5), HandlerFailure("busy"))
        )
        #expect(await verdict { .reject(reason: "bad 42") } == .reject(HandlerFailure("bad 42")))
        #expect(
            await verdict { throw Broken() }
                == .retry(after: nil, HandlerFailure(group: "Broken", detail: "Broken: socket 4711 closed"))
        )
        #expect(
            await verdict { throw Refused() } == .reject(HandlerFailure(group: "Refused", detail: "Refused: Refused()"))
        )
        let pause = HandlerVerdict.pause(HandlerFailure("gone"))
        #expect(await verdict { throw HandlerVerdictError(pause) } == pause)
        guard case .retry = await verdict({ throw CancellationError() }) else {
            Issue.record("a CancellationError of the handler's own making is a failure like any other")
            return
        }
    }

    @Test("A cancelled task counts no attempt")
    func aCancelledTaskIsNotCharged() async {
        let message = UpstreamMessage.sample(category: "a", data: "{}")
        let task = Task {
            await HandlerVerdict.of(
                ClosureHandler { _, _ in
                    while !Task.isCancelled { await Task.yield() }
                    throw Broken()
                },
                message,
                HandlerContext(handler: "h")
            )
        }
        task.cancel()
        #expect(await task.value == .cancelled)
    }

    @Test("Error groups leave out what differs between messages")
    func groupsLeaveOutWhatDiffers() {
        #expect(HandlerFailure("order 12345 of user_77 failed").group == "order # of # failed")
        #expect(HandlerFailure("webhook status 503").group == "webhook status 503")
        #expect(Set((0...255).map { HandlerFailure("no such article SKU-\($0), shelf \($0)").group }).count == 1)
        #expect(HandlerFailure("answered with HTTP 404").group != HandlerFailure("answered with HTTP 500").group)
        #expect(HandlerFailure("caf\u{E9}\n\u{0}x").group == "caf x")
        #expect(HandlerFailure("").group == "unknown")
        #expect(HandlerFailure(String(repeating: "a b ", count: 1000)).group.utf8.count <= 120)
        #expect(HandlerFailure("a\u{0}b").detail == "a\u{FFFD}b")
        #expect(HandlerFailure(String(repeating: "\u{E9}", count: 2000)).detail.utf8.count == 2048)
    }
}
