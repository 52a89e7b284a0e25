import Dispatcher
import HTTPWire
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// Several messages in one request, to a receiver that checks each with independent libraries.
@Suite(.timeLimit(.minutes(10))) struct WebhookBatchTests {
    private static let receiver = Result { try WebhookReceiver() }

    private func handler(_ path: String, batch: Int = 100, rejecting: Set<Int> = []) throws -> WebhookHandler {
        let endpoint = try #require(HTTPEndpoint("http://127.0.0.1:\(try Self.receiver.get().port)\(path)"))
        let options = WebhookHandler.Options(
            timeout: .seconds(20),
            policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init)),
            rejectStatuses: rejecting,
            batch: batch
        )
        return try WebhookHandler(endpoint, options) { [Array(WebhookReceiver.secret.utf8)] }
    }

    private func calls(_ data: [String]) -> [AttemptCall] {
        data.enumerated().map { number, data in
            var message = UpstreamMessage.sample(category: "c", data: data)
            message.messageKey = MessageKey(Digest128(high: 1, low: UInt64(number)))
            let lease = Lease(token: 1, deadline: .now + .seconds(60))
            let delivery = Delivery(content: .stored(message), messageKey: message.messageKey.digest, lease: lease)
            return AttemptCall(delivery, message, HandlerContext(handler: "h", attempt: 1, replayID: nil))
        }
    }

    /// The verdicts on messages with these data, of a receiver that was asked so often.
    private func verdicts(
        _ data: [String],
        name: String = #function,
        requests: Int,
        rejecting: Set<Int> = []
    ) async throws -> [HandlerVerdict] {
        let handler = try handler("/batch?name=\(name.prefix { $0 != "(" })", rejecting: rejecting)
        var registration = HandlerRegistration("h", categories: .all, handler: handler)
        registration.concurrency = 1
        let end = await registration.handle(calls(data))
        await handler.shutdown()
        let asked = try self.handler("/asked?name=\(name.prefix { $0 != "(" })&times=\(requests)", batch: 1)
        let context = HandlerContext(handler: "h", attempt: 1, replayID: nil)
        let count = await HandlerVerdict.of(asked, .sample(category: "c", data: "{}"), context)
        #expect(count == .done, "\(requests) requests")
        await asked.shutdown()
        // Those that are to go alone have none.
        return end.ends.map { if case .verdict(let verdict) = $0 { verdict } else { .cancelled } }
    }

    private func isRetry(_ verdict: HandlerVerdict, _ text: String) -> Bool {
        if case .retry(_, let failure) = verdict { failure.detail.contains(text) } else { false }
    }

    @Test("a batch is one signed request, and all of it is done")
    func all() async throws {
        let verdicts = try await verdicts(Array(repeating: "{}", count: 100), requests: 1)
        #expect(verdicts == Array(repeating: .done, count: 100))
    }

    @Test("the answer names those that failed")
    func named() async throws {
        let data = ["{}", #"{"is":"later"}"#, "{}", #"{"is":"odd"}"#]
        let verdicts = try await verdicts(data, requests: 1)
        #expect(verdicts[0] == .done && verdicts[2] == .done)
        guard case .retry(.seconds(7), let later) = verdicts[1], case .reject(let odd) = verdicts[3] else {
            Issue.record("\(verdicts)")
            return
        }
        #expect(later.detail == "the endpoint failed on it: closed" && odd.group == "webhook rejected")
    }

    @Test("an answer may name every message of a large batch, with a reason for each", arguments: [100, 1000])
    func long(_ count: Int) async throws {
        let data = Array(repeating: #"{"is":"long"}"#, count: count)
        let verdicts = try await verdicts(data, name: "long-\(count)", requests: 1)
        #expect(verdicts.allSatisfy { isRetry($0, "xxx") })
    }

    @Test(
        "JSON that can't be read, breaks off before it begins, or names a stranger, retries all; a text does not",
        arguments: ["cut", "unbegun", "stranger"]
    )
    func unread(_ kind: String) async throws {
        let unread = try await verdicts(["{}", #"{"is":"\#(kind)"}"#], name: kind, requests: 1)
        #expect(unread.allSatisfy { isRetry($0, "can't be read") })
        for other in ["text", "list"] {
            let data = ["{}", #"{"is":"\#(other)"}"#]
            #expect(try await verdicts(data, name: "\(other)-\(kind)", requests: 1) == [.done, .done])
        }
    }

    @Test(
        "an answer with a byte order mark, in UTF-16 or under another type names those that failed",
        arguments: ["marked", "wide", "untyped"]
    )
    func forms(_ kind: String) async throws {
        let verdicts = try await verdicts(["{}", #"{"is":"\#(kind)"}"#, "{}"], name: kind, requests: 1)
        #expect(verdicts[0] == .done && isRetry(verdicts[1], "closed") && verdicts[2] == .done)
    }

    @Test("a compressed answer, for which nobody asked, may name any")
    func compressed() async throws {
        let verdicts = try await verdicts(["{}", #"{"is":"packed"}"#], requests: 1)
        #expect(verdicts.allSatisfy { isRetry($0, "can't be read") })
    }

    @Test("what one of them may cause is asked of halves: the others are done")
    func halves() async throws {
        var data = Array(repeating: "{}", count: 16)
        data[5] = #"{"is":422}"#
        // 16, 8, 4, 4, 2, 1, 1 with it or beside it, 8, 2: four levels of two, and the first.
        let verdicts = try await verdicts(data, requests: 9, rejecting: [422])
        for index in data.indices where index != 5 { #expect(verdicts[index] == .done) }
        guard case .reject(let failure) = verdicts[5] else {
            Issue.record("\(verdicts[5])")
            return
        }
        #expect(failure.group == "webhook status 422")
    }

    @Test(
        "where a batch fails as a whole, the first message stands for it, and the others go alone",
        arguments: [404, 410, 429, 503]
    )
    func state(_ status: Int) async throws {
        let data = ["{}", #"{"is":\#(status)}"#, "{}"]
        let verdicts = try await verdicts(data, name: "state-\(status)", requests: 1)
        switch verdicts[0] {
        case .retry where status == 404, .pause where status == 410, .down where status == 429 || status == 503: break
        default: Issue.record("\(status): \(verdicts[0])")
        }
        #expect(verdicts.dropFirst() == [.cancelled, .cancelled])
    }

    @Test("events of a batch hold their trace context, and a lone message is a batch of one")
    func content() throws {
        var calls = calls(["{}"])
        calls[0].context.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let event = CloudEvent.batch(calls)
        let text = String(decoding: event.body, as: UTF8.self)
        #expect(text.hasPrefix("[{") && text.hasSuffix("}]"))
        #expect(text.contains(#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#))
        #expect(event.headers.first?.1 == "application/cloudevents-batch+json")
    }
}
