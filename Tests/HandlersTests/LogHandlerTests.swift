import Testing
import UpstreamKit
import Vocabulary

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

    @Test("messages that it is given together have a line each, the same as by themselves")
    func lines() async throws {
        let (alone, together) = (RecordedLog(), RecordedLog())
        let messages = ["c", "d", "e"].enumerated().map { number, category in
            UpstreamMessage.sample(
                category: category,
                data: category == "d" ? nil : "{}",
                messageKey: MessageKey(Digest128(high: 0, low: UInt64(number)))
            )
        }
        for (number, message) in messages.enumerated() {
            let context = HandlerContext(handler: "h", attempt: number + 1)
            _ = try await MessageLogHandler(logger: alone.logger).handle(message, context: context)
        }
        let outlines = messages.enumerated().map { MessageOutline($0.element, attempt: $0.offset + 1) }
        MessageLogHandler(logger: together.logger).take(outlines, handler: "h")
        #expect(together.lines == alone.lines && together.lines.count == 3)
    }
}
