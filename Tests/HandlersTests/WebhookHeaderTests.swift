import Dispatcher
import Foundation
import HTTPWire
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// Headers that the configuration adds to a webhook's requests.
@Suite struct WebhookHeaderTests {
    private func headers(_ lines: [String], holdsSecrets: Bool = false) throws(WebhookHeaders.Refused) -> WebhookHeaders
    {
        try WebhookHeaders().adding(lines.map { Array($0.utf8) }, holdsSecrets: holdsSecrets)
    }

    @Test("Names and values are taken as RFC 9110 has them, the spaces around a value aside")
    func taken() throws {
        let fields = try headers(["X-Tenant: blue", "x-empty-ish:\t a b\t", "!#$%&'*+-.^_`|~09: ~"]).fields
        #expect(fields.map(\.name) == ["X-Tenant", "x-empty-ish", "!#$%&'*+-.^_`|~09"])
        #expect(fields.map(\.value) == ["blue", "a b", "~"])
        #expect(try headers(["Authorization: Bearer FAKE-token"], holdsSecrets: true).fields.count == 1)
    }

    @Test("A name that tells of a secret is taken from a file alone, and the reason says so")
    func secrets() throws {
        let names = ["X-Auth-Token", "x-api-key", "X-ApiKey", "Client-SECRET", "X-Password", "Cookie", "Authorization"]
        for name in names {
            let error = #expect(throws: WebhookHeaders.Refused.self, "\(name)") { try headers(["\(name): s3cret"]) }
            let text = error?.description ?? ""
            #expect(text.contains(name) && text.contains("headers_file") && !text.contains("s3cret"), "\(text)")
            #expect(try headers(["\(name): FAKE-value"], holdsSecrets: true).fields.map(\.name) == [name])
        }
    }

    @Test("Other names and values are refused, and no reason tells a value")
    func refused() {
        let lines = [
            "", "X-Tenant", ": blue", "X Tenant: blue", "X-Tenant : blue", "X-Ténant: blue", "X-A:", "X-A:  ",
            "X-A: a\u{7}b",
            "X-A: a\rX-B: b", "X-A: a\u{0}b", "X-A: ä", "X-A: " + String(repeating: "s3cret", count: 700), "Host: x",
            "CONTENT-LENGTH: 5", "Content-Type: text/plain", "Transfer-Encoding: chunked", "Connection: close",
            "Webhook-Signature: v1,s3cret", "webhook-id: 1", "CE-Id: 1", "traceparent: 00-s3cret",
            "Expect: 100-continue",
            "Authorization: s3cret", "Cookie: s3cret", "Proxy-Authorization: s3cret",
        ]
        for line in lines {
            let error = #expect(throws: WebhookHeaders.Refused.self, "\(line)") { try headers([line]) }
            #expect(error?.description.contains("s3cret") == false)
            #expect(error?.description.hasPrefix("line 1 ") == true)
        }
        #expect(throws: WebhookHeaders.Refused.self) { try headers(["X-A: 1", "x-a: 2"]) }
        #expect(throws: WebhookHeaders.Refused.self) { try headers((0...WebhookHeaders.limit).map { "X-\($0): 1" }) }
    }

    @Test("They stand in each request; a file is read anew, and one that can't be used blames no message")
    func sent() async throws {
        let receiver = try WebhookReceiver()
        let value = RecordedValue("FAKE-one")
        let endpoint = "http://127.0.0.1:\(receiver.port)/header?name=authorization&value="
        func verdict(_ expected: String) async throws -> HandlerVerdict {
            let handler = try WebhookHandler(
                try #require(HTTPEndpoint(endpoint + expected)),
                WebhookHandler.Options(
                    timeout: .seconds(20),
                    policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init))
                ),
                headers: {
                    let line = Array("Authorization: \(value.text)".utf8)
                    return try WebhookHeaders().adding([line], holdsSecrets: true)
                },
                secrets: { [Array(WebhookReceiver.secret.utf8)] }
            )
            let message = UpstreamMessage.sample(category: "c", data: "{}")
            let verdict = await HandlerVerdict.of(handler, message, HandlerContext(handler: "h"))
            await handler.shutdown()
            return verdict
        }
        #expect(try await verdict("FAKE-one") == .done)
        value.text = "FAKE-two"
        #expect(try await verdict("FAKE-two") == .done)
        value.text = "s3cret\n"
        guard case .unavailable(_, let failure) = try await verdict("") else {
            Issue.record("it was sent")
            return
        }
        #expect(failure.group == "webhook headers can not be used" && !failure.detail.contains("s3cret"))
    }
}

/// A value that changes while others read it.
private final class RecordedValue: @unchecked Sendable {
    private let lock = NSLock()
    private var value: String

    init(_ value: String) { self.value = value }

    var text: String {
        get { lock.withLock { value } }
        set { lock.withLock { value = newValue } }
    }
}
