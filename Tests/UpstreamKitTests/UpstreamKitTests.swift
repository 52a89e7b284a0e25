import FoundationEssentials
import Testing
import Vocabulary

@testable import UpstreamKit

@Suite struct MessageDataTests {
    private struct Order: Decodable, Equatable {
        var item: String
        var quantity: Int
        var labels: [String: Int]?
    }

    private func message(_ data: String?) -> UpstreamMessage {
        UpstreamMessage(
            messageKey: MessageKey(Digest128(high: 1, low: 2)),
            messageID: "the-id",
            senderID: "1234567890",
            category: "com.example.orders",
            registrationToken: RegistrationToken("the-token"),
            deviceKey: DeviceKey(Digest128(high: 3, low: 4)),
            data: data.map { Array($0.utf8) },
            extra: nil,
            messageType: nil,
            receivedAtMicroseconds: 1_700_000_000_123_456
        )
    }

    @Test("Data decodes into a Decodable type")
    func readsDataAsADecodableType() throws {
        let order = try message(#"{"item":"tea","quantity":2}"#).decode(Order.self)
        #expect(order == Order(item: "tea", quantity: 2))
    }

    @Test("A decoding error names the place and hides what the device chose")
    func namesThePlaceAndHidesWhatTheDeviceChose() {
        let cases: [(String?, String)] = [
            (nil, "the message has no data to read as Order"),
            (#"{"item":"secret","quantity":"x"}"#, "the message's data does not read as Order at quantity"),
            (#"{"quantity":1}"#, "the message's data does not read as Order at item"),
            (
                #"{"item":"a","quantity":1,"labels":{"secret":"x"}}"#,
                "the message's data does not read as Order at labels.*"
            ),
            (#"["secret"]"#, "the message's data does not read as Order"),
        ]
        for (data, text) in cases {
            let error = #expect(throws: MessageDataError.self) { try message(data).decode(Order.self) }
            #expect(error?.description == text)
        }
    }

    @Test("A message prints neither token nor id nor payload")
    func printsNeitherTokenNorIDNorPayload() {
        let message = message(#"{"item":"the-payload"}"#)
        var dumped = ""
        dump(message, to: &dumped)
        dump(message.registrationToken, to: &dumped)
        let texts = [
            dumped, "\(message)", String(reflecting: message), "\(message.registrationToken)",
            String(reflecting: message.registrationToken), "\([message.registrationToken])",
            "\(Optional(message.registrationToken) as Any)",
        ]
        for text in texts {
            for secret in ["the-token", "the-id", "the-payload"] { #expect(!text.contains(secret), "\(text)") }
        }
    }

    @Test("The time of arrival keeps its microseconds")
    func keepsMicroseconds() {
        #expect((message(nil).receivedAt.timeIntervalSince1970 * 1_000_000).rounded() == 1_700_000_000_123_456)
    }
}

@Suite struct KeyTests {
    @Test("Message keys are read and written as UUIDs")
    func readsAndWritesTheUUIDForm() {
        let text = "00112233-4455-6677-8899-aabbccddeeff"
        #expect(MessageKey(text)?.description == text)
        #expect(DeviceKey(text.uppercased())?.description == text)
        #expect(MessageKey(text)?.digest == Digest128(high: 0x0011_2233_4455_6677, low: 0x8899_AABB_CCDD_EEFF))
    }

    @Test(
        "Texts that are not UUIDs are refused",
        arguments: [
            "", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0",
            "0011223304455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeefg",
            "{0112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeef\u{301}",
        ]
    )
    func refusesOtherTexts(_ text: String) {
        #expect(MessageKey(text) == nil)
    }

    @Test("Tokens compare as bytes")
    func tokensCompareAsBytes() {
        #expect(RegistrationToken("caf\u{E9}") != RegistrationToken("cafe\u{301}"))
        #expect(Set([RegistrationToken("a"), RegistrationToken("a")]).count == 1)
    }
}

@Suite struct RegistryTests {
    private let nothing = ClosureHandler { _, _ in .done }

    private func registration(
        _ name: String,
        _ change: (inout HandlerRegistration) -> Void = { _ in }
    ) -> HandlerRegistration {
        var registration = HandlerRegistration(name, categories: ["a"], handler: nothing)
        change(&registration)
        return registration
    }

    @Test("Registrations with values out of range are refused")
    func refusesWhatIsOutOfRange() {
        let cases: [(HandlerRegistration, RegistrationError.Code)] = [
            (registration(""), .name), (registration("Big"), .name), (registration(".x"), .name),
            (registration(String(repeating: "x", count: 64)), .name), (registration("a b"), .name),
            (registration("a") { $0.categories = [] }, .categories),
            (registration("a") { $0.categories = [""] }, .categories),
            (registration("a") { $0.categories = [String(repeating: "x", count: 256)] }, .categories),
            (registration("a") { $0.concurrency = 0 }, .concurrency),
            (registration("a") { $0.concurrency = 10_001 }, .concurrency),
            (registration("a") { $0.retry.maxAttempts = 0 }, .retry),
            (registration("a") { $0.retry.initial = .seconds(-1) }, .retry),
            (registration("a") { $0.retry.maximum = .milliseconds(1) }, .retry),
            (registration("a") { $0.timeout = .zero }, .timeout),
            (registration("a") { $0.rate = HandlerRate(0) }, .rate),
            (registration("a") { $0.rate = HandlerRate(1_000_001) }, .rate),
            (registration("a") { $0.rate = HandlerRate(1, per: .zero) }, .rate),
        ]
        for (registration, code) in cases {
            let error = #expect(throws: RegistrationError.self) { try HandlerRegistry([registration]) }
            #expect(error?.code == code)
        }
        let error = #expect(throws: RegistrationError.self) {
            try HandlerRegistry([registration("a"), registration("a")])
        }
        #expect(error?.code == .duplicateName)
    }

    @Test("Subscriptions compare the category's bytes")
    func subscribesByTheCategorysBytes() throws {
        var all = registration("all")
        all.categories = ["x", "*"]
        var accent = registration("accent")
        accent.categories = ["caf\u{E9}"]
        let registry = try HandlerRegistry([all, accent, registration("plain")])
        #expect(registry.subscribed(to: "a").map(\.name) == ["all", "plain"])
        #expect(registry.subscribed(to: "caf\u{E9}").map(\.name) == ["all", "accent"])
        #expect(registry.subscribed(to: "cafe\u{301}").map(\.name) == ["all"])
        #expect(all.categories == .all)
        #expect(CategorySet(["b", "a", "b"]).names == ["a", "b"])
    }

    @Test("A prefix includes what goes on behind its dot, by bytes")
    func prefixes() {
        let categories = CategorySet(["com.example.*", "org.example.shop"])
        for category in ["com.example.a", "com.example.a.b", "com.example.", "com.example.*", "org.example.shop"] {
            #expect(categories.contains(category), "\(category)")
        }
        for category in [
            "com.example", "com.examples.a", "Com.example.a", "xcom.example.a", "org.example.shop.a", "*", "",
        ] {
            #expect(!categories.contains(category), "\(category)")
        }
        #expect(!CategorySet(["caf\u{E9}.*"]).contains("cafe\u{301}.a"))
        #expect(!categories.isAll && CategorySet(["com.example.*", "*"]).isAll)
        #expect(categories.names == ["com.example.*", "org.example.shop"])
    }

    @Test(
        "A star inside a name, or behind half a word, is refused",
        arguments: ["com.*.orders", "com.exam*", ".*", "**", "*.example", "com.example.**", "com.*.*", ""]
    )
    func misplacedStar(entry: String) throws {
        var wrong = registration("a")
        wrong.categories = [entry]
        let error = #expect(throws: RegistrationError.self) { try HandlerRegistry([wrong]) }
        #expect(error?.code == .categories && error?.message.contains("com.example.*") == true)
    }
}
