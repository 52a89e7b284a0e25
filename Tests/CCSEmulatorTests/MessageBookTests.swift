import Testing

@testable import CCSEmulator

@Suite("MessageBook: what was delivered where, and what an ack is worth")
struct MessageBookTests {
    /// Delivers the next message on a connection.
    private func deliver(_ book: inout MessageBook, on slot: Int) throws -> Int {
        let taken = book.next(fresh: true)
        let next = try #require(taken)
        book.delivered(next.sequence, on: slot, isFirst: next.isFirst)
        return next.sequence
    }

    private func ack(
        _ book: inout MessageBook,
        _ sequence: Int,
        on slot: Int,
        _ expected: MessageBook.Verdict,
        at location: SourceLocation = #_sourceLocation
    ) {
        let verdict = book.ack(sequence, on: slot)
        #expect(verdict == expected, sourceLocation: location)
    }

    private func expectNext(
        _ book: inout MessageBook,
        _ expected: Int?,
        at location: SourceLocation = #_sourceLocation
    ) {
        let next = book.next(fresh: true)?.sequence
        #expect(next == expected, sourceLocation: location)
    }

    @Test("each message is acked once on its own connection")
    func acked() throws {
        var book = MessageBook(count: 3)
        let slot = book.open()
        for expected in 0..<3 {
            do {
                let sequence = try deliver(&book, on: slot)
                #expect(sequence == expected)
            }
        }
        expectNext(&book, nil)
        #expect(book.unacked(on: slot) == 3)
        #expect(!book.isComplete)
        for sequence in [2, 0, 1] { ack(&book, sequence, on: slot, .accepted(first: true)) }
        #expect(book.isComplete)
        #expect(book.ackedDistinct == 3 && book.ackedCopies == 3 && book.unackedCopies == 0)
    }

    @Test("a second ack is a double one")
    func double() throws {
        var book = MessageBook(count: 1)
        let slot = book.open()
        let sequence = try deliver(&book, on: slot)
        ack(&book, sequence, on: slot, .accepted(first: true))
        ack(&book, sequence, on: slot, .double)
    }

    @Test("two copies on one connection want two acks, not three")
    func duplicates() throws {
        var book = MessageBook(count: 1)
        let slot = book.open()
        let sequence = try deliver(&book, on: slot)
        book.delivered(sequence, on: slot, isFirst: false)
        ack(&book, sequence, on: slot, .accepted(first: true))
        #expect(!book.isComplete)
        ack(&book, sequence, on: slot, .accepted(first: false))
        ack(&book, sequence, on: slot, .double)
        #expect(book.isComplete && book.distinct == 1 && book.ackedCopies == 2)
    }

    @Test("an ack on another connection than the delivering one is worth nothing")
    func wrongConnection() throws {
        var book = MessageBook(count: 1)
        let one = book.open()
        let other = book.open()
        let sequence = try deliver(&book, on: one)
        ack(&book, sequence, on: other, .wrongConnection)
        ack(&book, sequence, on: one, .accepted(first: true))
    }

    @Test("a double ack is told from a wrong connection while another copy is out")
    func doubleWithCopyElsewhere() throws {
        var book = MessageBook(count: 1)
        let one = book.open()
        let other = book.open()
        let third = book.open()
        let sequence = try deliver(&book, on: one)
        book.delivered(sequence, on: other, isFirst: false)
        ack(&book, sequence, on: one, .accepted(first: true))
        ack(&book, sequence, on: one, .double)
        ack(&book, sequence, on: third, .wrongConnection)
        ack(&book, sequence, on: other, .accepted(first: false))
    }

    @Test("what a connection left unacked comes again to the next one that binds, oldest first")
    func redelivery() throws {
        var book = MessageBook(count: 5)
        let one = book.open()
        let other = book.open()
        for _ in 0..<4 { _ = try deliver(&book, on: one) }
        ack(&book, 1, on: one, .accepted(first: true))
        book.close(one)
        #expect(book.unackedCopies == 0)
        do {
            let sequence = try deliver(&book, on: other)
            #expect(sequence == 4, "an open connection gets new ones only")
        }
        ack(&book, 0, on: other, .wrongConnection)
        let next = book.open()
        for expected in [0, 2, 3] {
            do {
                let sequence = try deliver(&book, on: next)
                #expect(sequence == expected)
            }
        }
        expectNext(&book, nil)
        #expect(book.distinct == 5)
        for sequence in [0, 2, 3] { ack(&book, sequence, on: next, .accepted(first: true)) }
        ack(&book, 4, on: other, .accepted(first: true))
        #expect(book.isComplete)
    }

    @Test("a copy still out elsewhere, or acked there, does not come again")
    func noNeedlessRedelivery() throws {
        var book = MessageBook(count: 2)
        let one = book.open()
        let other = book.open()
        for _ in 0..<2 {
            let sequence = try deliver(&book, on: one)
            book.delivered(sequence, on: other, isFirst: false)
        }
        ack(&book, 0, on: other, .accepted(first: true))
        book.close(one)
        _ = book.open()
        expectNext(&book, nil)
        book.close(other)
        _ = book.open()
        expectNext(&book, 1)
    }

    @Test("special messages are found by their id, kept until acked, and some may not be acked at all")
    func specials() {
        var book = MessageBook(count: 0)
        let slot = book.open()
        let good = book.add(.init(id: [1], to: [2], stanza: [3], expectsAck: true))
        let bad = book.add(.init(id: [4], to: [2], stanza: [3], expectsAck: false))
        let again = book.add(.init(id: [1], to: [2], stanza: [9], expectsAck: true))
        #expect(again == good)
        book.delivered(good, on: slot, isFirst: true)
        book.delivered(bad, on: slot, isFirst: false)
        #expect(book.unacked(on: slot) == 1)
        ack(&book, bad, on: slot, .unwanted)
        ack(&book, -3, on: slot, .unknown)
        ack(&book, 0, on: slot, .unknown)
        book.close(slot)
        let next = book.open()
        expectNext(&book, good)
        book.delivered(good, on: next, isFirst: false)
        #expect(book.special(good).stanza == [3])
        ack(&book, good, on: next, .accepted(first: true))
        #expect(book.special(good).stanza.isEmpty)
        #expect(book.isComplete)
    }

    @Test("what is sent on a connection that has gone waits for the next one, once")
    func sentAfterTheEnd() throws {
        var book = MessageBook(count: 1)
        let gone = book.open()
        let generated = try deliver(&book, on: gone)
        book.close(gone)
        let odd = book.add(.init(id: [1], to: [2], stanza: [3], expectsAck: true))
        book.delivered(odd, on: gone, isFirst: true)
        book.delivered(generated, on: gone, isFirst: false)
        #expect(book.unackedCopies == 0)
        let next = book.open()
        for expected in [generated, odd] {
            expectNext(&book, expected)
            book.delivered(expected, on: next, isFirst: false)
            ack(&book, expected, on: next, .accepted(first: true))
        }
        #expect(book.isComplete)
        expectNext(&book, nil)
    }

    @Test("places of closed connections are used again, with nothing left in them")
    func slots() throws {
        var book = MessageBook(count: nil)
        var seen: Set<Int> = []
        for _ in 0..<1000 {
            let slot = book.open()
            seen.insert(slot)
            #expect(book.unacked(on: slot) == 0)
            _ = try deliver(&book, on: slot)
            book.close(slot)
            book.close(slot)
        }
        #expect(seen.count == 1)
        #expect(book.distinct == 1)
    }

    @Test("the set of acked numbers forgets what is full and still knows it")
    func sequenceSet() {
        var set = SequenceSet()
        for number in stride(from: 0, to: 200_000, by: 2) {
            let isNew = set.insert(number)
            #expect(isNew)
        }
        for number in stride(from: 1, to: 200_000, by: 2) {
            let isNew = set.insert(number)
            #expect(isNew)
        }
        for number in stride(from: 0, to: 200_000, by: 997) {
            #expect(set.contains(number))
            let isNew = set.insert(number)
            #expect(!isNew)
        }
        #expect(!set.contains(200_000) && !set.contains(1_000_000))
        #expect(set.count == 200_000)
    }
}
