import Testing
import Vocabulary

@testable import XMPP

@Suite("Delayed delivery: when the server took a message that it stored")
struct DelayTests {
    private static let json = #"{"message_id":"1","from":"t","category":"c","data":{"n":1}"#

    private static func message(
        _ children: String,
        more: String = "",
        dialect: Dialect = .xmpp
    ) throws -> IncomingMessage {
        let payload = escaped("\(json)\(more)}".utf8)
        let xml =
            "<message from='devices@gcm.googleapis.com/a'><gcm xmlns='google:mobile:data'>\(payload)</gcm>\(children)</message>"
        guard case .message(let message) = try decode(try stanza(xml), dialect: dialect) else {
            throw Unexpected("no message")
        }
        return message
    }

    private static func delay(_ from: String, _ stamp: String = "2026-11-22T08:41:16Z") -> String {
        "<delay xmlns='urn:xmpp:delay' from='\(from)' stamp='\(stamp)'>Offline Storage</delay>"
    }

    private static let extra = #"{"urn:xmpp:delay":"2026-11-22T08:41:16.000000Z"}"#

    @Test(
        "our server's time is kept in extra, in one form",
        arguments: [
            ("2026-11-22T08:41:16Z", "2026-11-22T08:41:16.000000Z"),
            ("2026-11-22T09:41:16.5+01:00", "2026-11-22T08:41:16.500000Z"),
            ("2026-11-22T00:41:16.123456-08:00", "2026-11-22T08:41:16.123456Z"),
        ]
    )
    func normalised(_ stamp: String, _ expected: String) throws {
        let message = try DelayTests.message(DelayTests.delay("fcm.googleapis.com", stamp))
        #expect(message.text(message.extra) == #"{"urn:xmpp:delay":"\#(expected)"}"#)
    }

    @Test("the device's own members stay as they are, and before it")
    func beside() throws {
        let more = #","a" : [1, 2],"b":"\u00e4""#
        let message = try DelayTests.message(DelayTests.delay("fcm.googleapis.com"), more: more)
        #expect(
            message.text(message.extra) == #"{"a":[1, 2],"b":"\u00e4","urn:xmpp:delay":"2026-11-22T08:41:16.000000Z"}"#
        )
        let without = try DelayTests.message("", more: more)
        #expect(without.text(without.extra) == #"{"a":[1, 2],"b":"\u00e4"}"#)
    }

    @Test(
        "a device's member of that name stays, however it is written",
        arguments: [#""urn:xmpp:delay""#, #""urn:xmpp:dela\u0079""#]
    )
    func collision(_ key: String) throws {
        let message = try DelayTests.message(DelayTests.delay("fcm.googleapis.com"), more: ",\(key):7")
        #expect(message.text(message.extra) == "{\(key):7}" && message.quarantine == nil)
    }

    @Test("a redelivery is the same message, whatever its time")
    func fingerprint() throws {
        let all = try [
            "", DelayTests.delay("fcm.googleapis.com"), DelayTests.delay("fcm.googleapis.com", "2027-01-01T00:00:00Z"),
        ].map { try DelayTests.message($0) }
        #expect(Set(all.map(\.fingerprint)).count == 1 && Set(all.map(\.messageKey)).count == 1)
        #expect(Set(all.map { $0.text($0.extra) }).count == 3)
    }

    @Test(
        "whose delay counts",
        arguments: [
            ("fcm.googleapis.com", true), ("FCM.googleapis.com.", true), ("1234567890@fcm.googleapis.com", true),
            ("1234567890@fcm.googleapis.com/r", false), ("devices@gcm.googleapis.com", false), ("evil.org", false),
            ("x@fcm.googleapis.com", false), ("fcm.googleapis.com.evil", false), ("", false), ("@", false),
        ]
    )
    func sources(_ from: String, _ counts: Bool) throws {
        let message = try DelayTests.message(DelayTests.delay(from))
        #expect(message.text(message.extra) == (counts ? DelayTests.extra : nil))
    }

    @Test(
        "what is no delay of ours changes nothing",
        arguments: [
            "<delay xmlns='urn:xmpp:delay' stamp='2026-11-22T08:41:16Z'/>",
            "<delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com'/>",
            "<delay xmlns='jabber:x:delay' from='fcm.googleapis.com' stamp='2026-11-22T08:41:16Z'/>",
            "<x xmlns='y'><delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='2026-11-22T08:41:16Z'/></x>",
            "<delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='yesterday'/>",
            "<delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='2026-02-30T00:00:00Z'/>",
            "<delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='2026-11-22T08:41:16Z&quot;,&quot;a'/>",
            "<delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='2026-11-22T08:41:16.\(String(repeating: "0", count: 5_000))Z'/>",
        ]
    )
    func others(_ children: String) throws {
        let message = try DelayTests.message(children)
        #expect(message.extra == nil && message.quarantine == nil)
    }

    @Test("of several of ours the last counts, which is the server's own")
    func several() throws {
        let message = try DelayTests.message(
            DelayTests.delay("fcm.googleapis.com", "2001-01-01T00:00:00Z") + DelayTests.delay("fcm.googleapis.com")
                + DelayTests.delay("evil.org", "2030-01-01T00:00:00Z")
        )
        #expect(message.text(message.extra) == DelayTests.extra)
    }

    @Test(
        "a payload that is not a direct child is never a message: carbons, forwarded copies, archives, and what wraps them",
        arguments: [
            "<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>$</forwarded></received>",
            "<sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>$</forwarded></sent>",
            "<private xmlns='urn:xmpp:carbons:2'>$</private>",
            "<private xmlns='urn:xmpp:carbons:2'/><received xmlns='urn:xmpp:carbons:2'>$</received>",
            "<forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' from='fcm.googleapis.com' stamp='2026-11-22T08:41:16Z'/>$</forwarded>",
            "<result xmlns='urn:xmpp:mam:2' id='1'><forwarded xmlns='urn:xmpp:forward:0'>$</forwarded></result>",
            "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='n'><item>$</item></items></event>",
            "<x xmlns='http://jabber.org/protocol/muc#user'>$</x>", "<body>$</body>",
            "<reply xmlns='urn:xmpp:reply:0'/><fallback xmlns='urn:xmpp:fallback:0'>$</fallback>",
        ]
    )
    func wrappers(_ wrapper: String) throws {
        let gcm = "<gcm xmlns='google:mobile:data'>{\"message_id\":\"1\",\"from\":\"t\",\"category\":\"c\"}</gcm>"
        let inner = "<message xmlns='jabber:client' from='devices@gcm.googleapis.com'>\(gcm)</message>"
        for content in [inner, gcm] {
            let xml =
                "<message from='devices@gcm.googleapis.com'>\(wrapper.replacing("$", with: content))</message>"
            for dialect in [Dialect.ccs, .xmpp] {
                #expect(word(try decode(try stanza(xml), dialect: dialect)) == "other")
            }
        }
    }
}
