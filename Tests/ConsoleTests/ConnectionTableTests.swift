import Testing

@testable import Console

/// Whose connections go when there are too many.
@Suite struct ConnectionTableTests {
    private final class Token {}

    private static let start = ContinuousClock.now
    private static func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }

    private static func table(_ change: (inout ConnectionTable.Limits) -> Void = { _ in }) -> ConnectionTable {
        var limits = ConnectionTable.Limits()
        (limits.connections, limits.strangers, limits.perAddress, limits.perPrincipal) = (10, 6, 3, 4)
        limits.unread = 100
        change(&limits)
        return ConnectionTable(limits)
    }

    @Test("a fourth connection of an address sends its idlest away, and one with a request only where all have one")
    func address() {
        var table = Self.table()
        let tokens = (0..<6).map { _ in Token() }
        let ids = tokens.map { ObjectIdentifier($0) }
        for index in 0..<3 { #expect(table.open(ids[index], .stranger("a"), at: Self.at(index)).isEmpty) }
        #expect(table.open(ids[3], .stranger("b"), at: Self.at(3)).isEmpty)
        table.count(ids[0], requests: 1, at: Self.at(4))
        #expect(table.open(ids[4], .stranger("a"), at: Self.at(5)) == [ids[1]])
        for id in [ids[2], ids[4]] { table.count(id, requests: 1, at: Self.at(6)) }
        #expect(table.open(ids[5], .stranger("a"), at: Self.at(7)) == [ids[0]])
        #expect(table.count == 4)
    }

    @Test("strangers of many addresses leave room for those who have signed in")
    func reserve() {
        var table = Self.table()
        let tokens = (0..<40).map { _ in Token() }
        let ids = tokens.map { ObjectIdentifier($0) }
        for (index, id) in ids[..<30].enumerated() {
            let gone = table.open(id, .stranger("\(index / 2)"), at: Self.at(index))
            #expect(gone.count == (index < 6 ? 0 : 1) && !gone.contains(id))
        }
        #expect(table.count == 6)
        // Each comes as a stranger, in place of another, and stays as somebody.
        for (index, id) in ids[30..<34].enumerated() {
            #expect(table.open(id, .stranger("z"), at: Self.at(40 + index)).contains(id) == false)
            #expect(table.identify(id, Array("ada".utf8)) == [])
            #expect(!table.isStranger(id))
        }
        #expect(table.count == 9)
    }

    @Test("who has too many gives an idle one up; with all of them in use the request is refused")
    func principal() {
        var table = Self.table()
        let tokens = (0..<6).map { _ in Token() }
        let ids = tokens.map { ObjectIdentifier($0) }
        for (index, id) in ids[..<4].enumerated() {
            _ = table.open(id, .stranger("a"), at: Self.at(index))
            #expect(table.identify(id, [1]) == [])
            table.count(id, requests: index == 2 ? 0 : 1, at: Self.at(index))
        }
        _ = table.open(ids[4], .stranger("a"), at: Self.at(9))
        #expect(table.identify(ids[4], [1]) == [ids[2]])
        table.count(ids[4], requests: 1, at: Self.at(9))
        _ = table.open(ids[5], .stranger("a"), at: Self.at(10))
        #expect(table.identify(ids[5], [1]) == nil)
        #expect(table.identify(ids[5], [2]) == [])
    }

    @Test("beyond the bound of all answers, whoever leaves most loses what it has not read for longest")
    func unread() {
        var table = Self.table()
        let tokens = (0..<4).map { _ in Token() }
        let ids = tokens.map { ObjectIdentifier($0) }
        for (index, id) in ids.enumerated() {
            _ = table.open(id, .stranger("a"), at: Self.at(0))
            _ = table.identify(id, [index < 3 ? 1 : 2])
        }
        #expect(table.made(ids[0], 30, at: Self.at(1)).isEmpty)
        #expect(table.made(ids[1], 30, at: Self.at(2)).isEmpty)
        // It takes a little now and then.
        table.took(ids[0], 1, at: Self.at(3))
        #expect(table.made(ids[3], 40, at: Self.at(4)).isEmpty)
        #expect(table.made(ids[3], 2, at: Self.at(5)) == [ids[1]])
        #expect(table.unread == 71)
        table.took(ids[1], 30, at: Self.at(6))
        table.close(ids[3])
        table.close(ids[3])
        #expect(table.unread == 29)
        // More than the bound by itself.
        #expect(table.made(ids[2], 200, at: Self.at(7)) == [ids[0], ids[2]])
        #expect(table.unread == 0)
    }
}
