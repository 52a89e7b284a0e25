import NIOCore
import Testing
import XMPP

@testable import XMPPSession

@Suite("Acks that the server may not have")
struct UnconfirmedAcksTests {
    private static func ack(_ number: UInt32) -> String { "<message id=\"\">\(number)</message>" }

    /// A piece with these acks; what follows the last one.
    private static func piece(
        _ numbers: ClosedRange<Int>,
        from start: UInt32,
        isCounted: Bool = false
    ) -> UnconfirmedAcks.Piece {
        let all = numbers.map { ack(start &+ UInt32($0)) }.joined()
        return UnconfirmedAcks.Piece(
            last: start &+ UInt32(numbers.upperBound),
            count: numbers.count,
            bytes: ByteBuffer(string: all),
            isCounted: isCounted
        )
    }

    private static func text(_ acks: UnconfirmedAcks) -> String {
        acks.pieces.map { String(buffer: $0.bytes) }.joined()
    }

    @Test("each count leaves just what is behind it, across 2^32 too", arguments: [0, UInt32.max - 4])
    func everyCount(_ start: UInt32) {
        for count in UInt32(0)...9 {
            var acks = UnconfirmedAcks()
            // A ping was the fourth stanza.
            let pieces = [1...3, 5...5, 6...9].map { UnconfirmedAcksTests.piece($0, from: start) }
            for piece in pieces { _ = acks.append(piece) }
            let had = [1, 2, 3, 5, 6, 7, 8, 9].filter { $0 <= count }.count
            let confirmed = acks.confirm(start &+ count)
            #expect(confirmed == had, "\(count)")
            let rest = [1, 2, 3, 5, 6, 7, 8, 9].filter { $0 > count }.map { UnconfirmedAcksTests.ack(start &+ $0) }
            #expect(UnconfirmedAcksTests.text(acks) == rest.joined(), "\(count)")
            #expect(acks.uncounted == rest.count)
            let again = acks.confirm(start &+ count)
            #expect(again == 0)
        }
    }

    @Test("what was written is not counted again")
    func counted() {
        var acks = UnconfirmedAcks()
        _ = acks.append(UnconfirmedAcksTests.piece(1...2, from: 0))
        _ = acks.append(UnconfirmedAcksTests.piece(3...4, from: 0))
        acks.wrote(2)
        acks.wrote(9)
        #expect(acks.uncounted == 2 && acks.holds(4) && !acks.holds(3))
        let confirmed = acks.confirm(3)
        #expect(confirmed == 1)
        #expect(acks.uncounted == 1)
    }

    @Test("no more is kept than there is room for")
    func room() {
        var acks = UnconfirmedAcks()
        let piece = UnconfirmedAcks.Piece(
            last: 1,
            count: 1,
            bytes: ByteBuffer(repeating: 0x20, count: UnconfirmedAcks.byteLimit),
            isCounted: true
        )
        let fits = [acks.append(piece), acks.append(piece)]
        #expect(fits == [true, false])
        // A short ack in a large buffer takes the buffer.
        var short = ByteBuffer()
        short.reserveCapacity(UnconfirmedAcks.byteLimit / 2)
        short.writeString("<message/>")
        var others = UnconfirmedAcks()
        let places = (0..<3).map { others.append(.init(last: $0, count: 1, bytes: short, isCounted: true)) }
        #expect(places == [true, true, false])
    }
}

@Suite("Where a server may send us, and what we are called")
struct StreamSettingsTests {
    private static let settings = StreamSettings(senderID: "1", domain: "example.org")

    @Test(
        "only what is listed is followed, and only with the port that is listed",
        arguments: [
            ("b.example.org", "b.example.org", nil), ("B.Example.ORG", "B.Example.ORG", nil),
            ("b.example.org:5223", "b.example.org", 5_223), ("c.example.org:5222", "c.example.org", 5_222),
            ("[2001:db8::1]:5222", "2001:db8::1", 5_222), ("[2001:db8::1]", "2001:db8::1", nil),
        ] as [(String, String, Int?)]
    )
    func listed(_ place: String, _ host: String, _ port: Int?) {
        var settings = Self.settings
        settings.redirectHosts = ["b.example.org", "c.example.org:5222", "[2001:db8::1]"]
        let found = settings.redirection(to: place)
        #expect(found?.host == host && found?.port == port)
        #expect(Self.settings.redirection(to: place) == nil)
    }

    @Test(
        "nothing else is",
        arguments: [
            "", ":", "x.b.example.org", "b.example.org.evil", "evil", "c.example.org", "c.example.org:5223",
            "b.example.org:", "b.example.org:0", "b.example.org:65536", "b.example.org:-1", "b.example.org:5 222",
            "[2001:db8::1", "[2001:db8::1]x", "[]:5222", "[2001:db8::2]", "b.example.org/x", "a@b.example.org",
        ]
    )
    func notListed(_ place: String) {
        var settings = Self.settings
        settings.redirectHosts = ["b.example.org", "c.example.org:5222", "[2001:db8::1]"]
        #expect(settings.redirection(to: place) == nil)
    }

    @Test("each connection of a sender has a resource of its own")
    func resources() {
        var settings = Self.settings
        settings.resource = "w"
        #expect(settings.resource(ofSlot: 0, among: 1) == "w")
        #expect((0..<3).map { settings.resource(ofSlot: $0, among: 3) } == ["w-1", "w-2", "w-3"])
        #expect(Self.settings.resource(ofSlot: 1, among: 3) == nil)
    }
}
