import Testing
import UpstreamKit

@testable import Handlers

@Suite("the handler kind log")
struct LogHandlerTests {
    @Test("its line tells which message it was, and nothing that is in it")
    func line() async throws {
        let log = RecordedLog()
        let message = UpstreamMessage.sample(category: "c", data: #"{"a":"FAKE-PAYLOAD"}"#)
        let context = HandlerContext(handler: "h", attempt: 2)
        let outcome = try await MessageLogHandler(logger: log.logger).handle(message, context: context)
        #expect(outcome == .done)
        #expect(
            log.lines == [
                [
                    "message": "message", "event": "handler.message", "handler": "h", "category": "c", "attempt": "2",
                    "bytes": "20", "message_key": message.messageKey.description,
                    "device_key": message.deviceKey.description,
                ]
            ]
        )
    }
}
