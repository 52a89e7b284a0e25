import Testing
import Vocabulary

@testable import Dispatcher

@Suite("What a worker knows of its open blocks")
struct DeliveryBlocksTests {
    private let now = ContinuousClock.now
    private let failure = HandlerFailure("refused")

    /// The blocks behind a reference, so that an expectation can change them.
    private final class Books {
        var blocks = DeliveryBlocks()
        var isEmpty: Bool { blocks.isEmpty }
        func take(_ settlement: Settlement) -> Bool { blocks.take(settlement) }
        func takeReady() -> [BlockSettlement] { blocks.takeReady() }
    }

    /// Books with one block open, number 7 under the token 3.
    private func opened(_ count: Int) -> Books {
        let books = Books()
        books.blocks.open(7, token: 3, count: count, at: now)
        return books
    }

    private func key(_ number: UInt8) -> Digest128 { Digest128(high: 0, low: UInt64(number)) }

    private func settlement(
        _ number: UInt8,
        _ outcome: Settlement.Outcome = .done,
        block: Int64? = 7
    ) -> Settlement {
        Settlement(messageKey: key(number), token: 3, outcome: outcome, block: block)
    }

    private func told(_ done: UInt8..., of count: Int) -> BlockSettlement {
        BlockSettlement(number: 7, token: 3, count: count, done: done.map(key))
    }

    @Test("A block of which all is done is told at once, as complete")
    func allDone() {
        let books = opened(2)
        #expect(books.take(settlement(1)))
        #expect(books.takeReady() == [] && !books.isEmpty)
        #expect(books.take(settlement(2)))
        #expect(books.isEmpty)
        #expect(books.takeReady() == [told(1, 2, of: 2)])
        #expect(told(1, 2, of: 2).isComplete)
        #expect(books.takeReady() == [])
    }

    @Test("A delivery that is not done is never counted as done: its block becomes rows, less what is done")
    func oneNotDone() {
        let others: [Settlement.Outcome] = [
            .retry(after: .seconds(1), failure), .dead(failure, isCounted: true), .release(after: .zero),
        ]
        for outcome in others {
            let books = opened(3)
            #expect(books.take(settlement(1)))
            #expect(!books.take(settlement(2, outcome)), "\(outcome)")
            #expect(books.takeReady() == [told(1, of: 3)], "\(outcome)")
            #expect(!told(1, of: 3).isComplete)
            // What comes later has a row by then.
            #expect(books.isEmpty)
            #expect(!books.take(settlement(3)))
            #expect(books.takeReady() == [])
        }
    }

    @Test("The last of a block that fails leaves it incomplete")
    func lastNotDone() {
        let books = opened(2)
        #expect(books.take(settlement(1)))
        #expect(!books.take(settlement(2, .retry(after: .zero, failure))))
        #expect(books.takeReady() == [told(1, of: 2)])
    }

    @Test("A delivery with a row of its own, or of a block that is not open, is left to its row")
    func notInAnOpenBlock() {
        let books = opened(1)
        #expect(!books.take(settlement(1, block: nil)))
        #expect(!books.take(settlement(1, block: 8)))
        #expect(!books.isEmpty)
        #expect(books.takeReady() == [])
    }

    @Test("Attempts are kept beside the messages that they were made at, in their order")
    func attemptsInOrder() {
        let books = opened(2)
        let attempts = [1, 2].map {
            AttemptRecord(outcome: .done, started: now, took: .milliseconds($0), receivedAt: 0)
        }
        for (number, attempt) in zip([UInt8(1), 2], attempts) {
            var settlement = settlement(number)
            settlement.attempt = attempt
            #expect(books.take(settlement))
        }
        let told = books.takeReady()
        #expect(told.map(\.done) == [[key(1), key(2)]])
        #expect(told.map(\.attempts) == [attempts])
    }

    @Test("Blocks that have been open for long become rows, and all do at the end")
    func unpacking() {
        let books = Books()
        for number in Int64(0)..<3 {
            books.blocks.open(number, token: number, count: 2, at: now.advanced(by: .seconds(number)))
        }
        #expect(books.take(settlement(1, block: 0)))
        books.blocks.unpack(openedBefore: now.advanced(by: .seconds(2)))
        let old = books.takeReady().sorted { $0.number < $1.number }
        #expect(old.map(\.number) == [0, 1] && old.map(\.token) == [0, 1])
        #expect(old.map(\.done) == [[key(1)], []])
        #expect(!books.isEmpty)
        books.blocks.unpackAll()
        #expect(books.isEmpty)
        #expect(books.takeReady().map(\.number) == [2])
    }

    @Test("A block that may have committed is unpacked without a word on how many it holds")
    func abandoned() {
        let books = Books()
        books.blocks.abandon(7, token: 3)
        #expect(books.isEmpty)
        let told = books.takeReady()
        #expect(told == [BlockSettlement(number: 7, token: 3, count: -1, done: [])])
        #expect(told.allSatisfy { !$0.isComplete })
    }
}
