import Testing

@testable import Console

/// Who is lent a session.
@Suite struct ReadSharesTests {
    private static func search(_ reader: String) -> ReadShares.Claim { .init(reader: reader, use: .search) }
    private static func look(_ reader: String) -> ReadShares.Claim { .init(reader: reader, use: .look) }

    @Test("of four sessions one reader searches on two, all readers on three, and one reader has three")
    func shares() {
        var shares = ReadShares(sessions: 4)
        for _ in 0..<2 { shares.take(Self.search("a")) }
        #expect(!shares.allows(Self.search("a")) && shares.allows(Self.search("b")) && shares.allows(Self.look("a")))
        shares.take(Self.search("b"))
        #expect(!shares.allows(Self.search("b")) && !shares.allows(Self.search("c")) && shares.allows(Self.look("c")))
        shares.take(Self.look("a"))
        #expect(!shares.allows(Self.look("a")) && shares.allows(Self.look("b")) && shares.allows(Self.look("")))
        shares.giveBack(Self.search("a"))
        #expect(shares.allows(Self.look("a")) && shares.allows(Self.search("c")))
    }

    @Test("with one session everybody may have it")
    func single() {
        let shares = ReadShares(sessions: 1)
        #expect(shares.allows(Self.search("a")) && shares.allows(Self.look("b")))
    }

    @Test("next is the reader with the fewest sessions, and of one reader the first; nobody fills the queue alone")
    func order() {
        var shares = ReadShares(sessions: 4)
        shares.take(Self.search("a"))
        #expect(shares.next([Self.search("a"), Self.search("b"), Self.look("b")]) == 1)
        shares.take(Self.search("a"))
        #expect(shares.next([Self.search("a")]) == nil)
        let waiting = Array(repeating: Self.search("a"), count: 32)
        #expect(!shares.mayWait(Self.look("a"), waiting) && shares.mayWait(Self.search("b"), waiting))
    }
}
