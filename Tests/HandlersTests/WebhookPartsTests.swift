import Digests
import Foundation
import HTTPWire
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

@Suite struct WebhookSignerTests {
    private func lines(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

    /// The published example of the Standard Webhooks specification's reference libraries.
    @Test("The specification's test vector gets its signature")
    func signsTheSpecificationsVector() throws {
        let signer = try WebhookSigner(secrets: lines("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let signature = signer.signature(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8)
        )
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    /// RFC 4231, test cases 1, 2, 6 (a key longer than the block).
    @Test("The examples of RFC 4231 have their HMACs")
    func computesTheHMACsOfRFC4231() {
        let cases: [([UInt8], [UInt8], String)] = [
            (
                Array(repeating: 0x0B, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                Array(repeating: 0xAA, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
        ]
        for (key, message, code) in cases {
            #expect(Hex.encode(HashFunction.sha256.code(for: message, key: key)) == code)
        }
        #expect(HashFunction.sha256.code(for: [], key: []).count == 32)
    }

    @Test("Two secrets give two signatures")
    func twoSecretsGiveTwoSignatures() throws {
        let (one, two) = (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + Base64.text(Array(repeating: 7, count: 32))
        )
        func sign(_ secrets: [[UInt8]]) throws -> String {
            try WebhookSigner(secrets: secrets).signature(id: "i", timestamp: 1, body: [])
        }
        #expect(try sign(lines(one, two)) == sign(lines(one)) + " " + sign(lines(two)))
    }

    @Test("Text that is not a secret is rejected")
    func refusesWhatIsNoSecret() {
        let short = "whsec_" + Base64.text(Array(repeating: 7, count: 23))
        let long = "whsec_" + Base64.text(Array(repeating: 7, count: 65))
        let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let cases: [([[UInt8]], WebhookSigner.SecretError)] = [
            ([], .missing), (lines("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), .form), (lines("whsec_!!!!"), .form),
            (lines("whsec_MfK"), .form), (lines("whsec_"), .length), (lines(short), .length), (lines(long), .length),
            (lines(good, good, good), .tooMany), (lines(good, "x"), .form), (lines(good + " "), .character),
            (lines(" " + good), .character), (lines(good + "\t"), .character), (lines(good + "\0"), .character),
            (lines("\u{FEFF}" + good), .character), (lines(good + " " + good), .character),
            (lines("whsec_" + good), .form), (lines(String(good.dropLast(2))), .form), (lines("whsec-AAAA"), .form),
        ]
        for (secrets, error) in cases {
            #expect(throws: error) { try WebhookSigner(secrets: secrets) }
            #expect(!error.description.contains("MfKQ"))
        }
    }
}

@Suite struct NetworkPolicyTests {
    @Test(
        "Addresses that are not public are refused",
        arguments: [
            "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
            "100.100.100.200", "0.0.0.0", "255.255.255.255", "224.0.0.1", "198.18.0.1", "168.63.129.16", "192.0.0.192",
            "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1", "::ffff:127.0.0.1",
            "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "2002:7f00:1::",
            "2002:a00:1::1", "64:ff9b:1::1", "2001::1", "::ffff:0.0.0.0",
        ]
    )
    func refusesWhatIsNotPublic(_ text: String) throws {
        let address = try #require(NetworkAddress(text))
        #expect(NetworkPolicy(allowed: []).decide(address, isPlain: false) == .refuse)
        #expect(NetworkPolicy(allowed: []).decide(address, isPlain: true) == .refuse)
    }

    @Test(
        "Public addresses are allowed over TLS",
        arguments: [
            "8.8.8.8", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.1.1", "1.1.1.1",
            "2606:4700::1111", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
        ]
    )
    func allowsPublicOnesOverTLS(_ text: String) throws {
        let address = try #require(NetworkAddress(text))
        #expect(NetworkPolicy(allowed: []).decide(address, isPlain: false) == .allow)
        #expect(NetworkPolicy(allowed: []).decide(address, isPlain: true) == .refusePlain)
    }

    @Test("Networks that the operator names are allowed")
    func allowsWhatTheOperatorNames() throws {
        let policy = NetworkPolicy(allowed: ["10.1.0.0/15", "fd00::/8", "203.0.113.7/32"].compactMap(Network.init))
        for text in ["10.1.0.1", "10.0.255.255", "10.1.255.255", "fd12::1", "203.0.113.7", "::ffff:10.1.2.3"] {
            let address = try #require(NetworkAddress(text))
            #expect(policy.decide(address, isPlain: true) == .allow, "\(text)")
        }
        for text in ["10.2.0.0", "fc00::1", "203.0.113.8", "127.0.0.1", "::1"] {
            let address = try #require(NetworkAddress(text))
            #expect(policy.decide(address, isPlain: false) != .allow, "\(text)")
        }
    }

    @Test(
        "Text that is not a network is rejected",
        arguments: ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "x/8", "10.0.0.0/-1", "10.0.0.0/8/8"]
    )
    func refusesWhatIsNoNetwork(_ text: String) {
        #expect(Network(text) == nil)
    }

    @Test("URLs are parsed strictly")
    func takesURLsApartStrictly() {
        let good = [
            "https://Example.com": ("example.com", "https://example.com/"),
            "https://example.com:8443/a?b=c": ("example.com", "https://example.com:8443/a?b=c"),
            "http://127.0.0.1:80/x": ("127.0.0.1", "http://127.0.0.1:80/x"),
            "https://[FD00::1]:8443/": ("fd00::1", "https://[fd00::1]:8443/"),
            "HTTPS://a_b.example?x": ("a_b.example", "https://a_b.example/?x"),
            "https://example.com/a?b={c}|\"%7C": ("example.com", "https://example.com/a?b=%7Bc%7D%7C%22%7C"),
        ]
        for (text, (host, url)) in good {
            #expect(HTTPEndpoint(text)?.host == host)
            #expect(HTTPEndpoint(text)?.url == url)
        }
        let bad = [
            "", "example.com", "ftp://example.com", "https://", "https:///x", "https://user@example.com/",
            "https://example.com@10.0.0.1/", "https://exa mple.com", "https://example.com#x", "https://ex%61mple.com",
            #"https://example.com\@10.0.0.1"#, "https://[::1", "https://[::1]x", "https://[1.2.3.4]/", "https://[]/",
            "https://example.com:0", "https://example.com:99999", "https://example.com:x", "https://caf\u{E9}.example",
            "https://[fe80::1%25eth0]/", "https://example.com:", "https://]/",
        ]
        for text in bad { #expect(HTTPEndpoint(text) == nil, "\(text)") }
    }
}

@Suite struct RetryAfterTests {
    private let now: Int64 = 784_111_777  // Sun, 06 Nov 1994 08:49:37 GMT

    @Test("Retry-After is read as seconds and as a date")
    func readsSecondsAndDates() {
        let cases: [(String, Duration?)] = [
            ("120", .seconds(120)), (" 5 ", .seconds(5)), ("0", .zero), ("99999999999999999999", .seconds(86_400)),
            ("86401", .seconds(86_400)), ("Sun, 06 Nov 1994 08:50:37 GMT", .seconds(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", .seconds(60)), ("Sun Nov  6 08:50:37 1994", .seconds(60)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", .zero), ("Fri, 31 Dec 9999 23:59:59 GMT", .seconds(86_400)),
            ("", nil), ("-5", nil), ("soon", nil), ("5s", nil), ("1.5", nil), ("Sun, 06 Nov 1994 08:50:37 CET", nil),
            ("Sun, 32 Nov 1994 08:50:37 GMT", nil), ("Sun, 06 Xxx 1994 08:50:37 GMT", nil),
            ("Sun, 06 Nov 1994 24:50:37 GMT", nil), ("Sun, 06 Nov 1994 08:50 GMT", nil),
            (String(repeating: "1", count: 100), nil),
        ]
        for (value, wait) in cases { #expect(RetryAfter.parse(value, now: now) == wait, "\(value)") }
    }

    @Test("A date is judged by the answering server's clock")
    func aDateIsJudgedByTheClockOfWhoeverNamedIt() {
        let (date, after) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:51:37 GMT")
        // Our clock is an hour ahead, then a year behind.
        for ours in [now + 3600, now - 31_536_000] {
            #expect(RetryAfter.wait(after, date: date, now: ours) == .seconds(120))
            #expect(RetryAfter.wait("5", date: date, now: ours) == .seconds(5))
        }
        #expect(RetryAfter.wait(after, date: "yesterday", now: now) == .seconds(120))
        #expect(RetryAfter.wait(after, date: nil, now: now) == .seconds(120))
        #expect(RetryAfter.wait(nil, date: date, now: now) == nil)
    }

    @Test("HTTP dates agree with Foundation's")
    func datesAgreeWithFoundation() {
        for day in stride(from: 0, to: 40_000, by: 37) {
            let date = Date(timeIntervalSince1970: Double(day) * 86_400 + 3661)
            let text = date.formatted(.iso8601)
            let parts = text.split { !"0123456789".contains($0) }
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
            let month = months[(Int(parts[1]) ?? 1) - 1]
            #expect(RetryAfter.date("Xyz, \(parts[2]) \(month) \(parts[0]) 01:01:01 GMT") == Int64(day) * 86_400 + 3661)
        }
    }
}

@Suite struct CloudEventTests {
    private struct Event: Decodable, Equatable {
        var specversion: String
        var id: String
        var source: String
        var type: String
        var subject: String
        var time: String
        var messageid: String?
        var category: String?
        var attempt: Int
        var replayid: String?
        var datacontenttype: String?
        var data: [String: Int]?
    }

    @Test("the event has the fields of docs/handlers.md, escaped where they must be")
    func isTheDocumentedEvent() throws {
        let message = UpstreamMessage.sample(category: "com.example/\u{E4} b", data: "{\n\"n\":1}", messageID: "m:\"1")
        let bytes = CloudEvent.structured(message, HandlerContext(handler: "h", attempt: 3, replayID: "7")).body
        let event = try JSONDecoder().decode(Event.self, from: Data(bytes))
        #expect(
            event
                == Event(
                    specversion: "1.0",
                    id: message.messageKey.description,
                    source: "/senders/1234567890/apps/com.example%2F%C3%A4%20b",
                    type: "upstream.message.v1",
                    subject: message.deviceKey.description,
                    time: "2026-01-01T00:00:00.000000Z",
                    messageid: "m:\"1",
                    category: "com.example/\u{E4} b",
                    attempt: 3,
                    replayid: "7",
                    datacontenttype: "application/json",
                    data: ["n": 1]
                )
        )
        #expect(!String(decoding: bytes, as: UTF8.self).contains(message.registrationToken.rawValue))
    }

    @Test("Attributes that a CloudEvent cannot hold are left out")
    func leavesOutWhatACloudEventCannotHold() throws {
        let message = UpstreamMessage.sample(category: "a\u{7F}b", data: nil, messageID: "a\u{1}b")
        let bytes = CloudEvent.structured(message, HandlerContext(handler: "h")).body
        let event = try JSONDecoder().decode(Event.self, from: Data(bytes))
        #expect(event.messageid == nil && event.category == nil && event.data == nil && event.replayid == nil)
        #expect(event.source == "/senders/1234567890/apps/a%7Fb")
        #expect(!String(decoding: bytes, as: UTF8.self).contains("\"data\""))
    }

    @Test("In binary mode headers hold the attributes")
    func inBinaryModeHeadersHoldTheAttributes() {
        let message = UpstreamMessage.sample(category: "a \"%\u{E4}", data: "[ 1 ]", messageID: "m 1")
        let event = CloudEvent.binary(message, HandlerContext(handler: "h", attempt: 2))
        #expect(event.body == Array("[ 1 ]".utf8))
        let headers = Dictionary(uniqueKeysWithValues: event.headers)
        #expect(headers["ce-category"] == "a%20%22%25%C3%A4" && headers["ce-messageid"] == "m%201")
        #expect(headers["ce-specversion"] == "1.0" && headers["ce-attempt"] == "2" && headers["ce-replayid"] == nil)
        #expect(headers["content-type"] == "application/json")
        // A server may refuse a long header and never take the message.
        let long = UpstreamMessage.sample(category: "c", data: nil, messageID: String(repeating: "\u{E4}", count: 2000))
        let bare = CloudEvent.binary(long, HandlerContext(handler: "h"))
        #expect(bare.body.isEmpty && !bare.headers.contains { $0.0 == "ce-messageid" || $0.0 == "content-type" })
    }
}
