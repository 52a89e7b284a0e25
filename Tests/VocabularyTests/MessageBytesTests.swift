import Testing

@testable import Vocabulary

@Suite("the bytes of messages, in blocks that those of one read share")
struct MessageBytesTests {
    /// A message of so many equal bytes.
    private func add(_ byte: UInt8, _ count: Int, to storage: inout MessageStorage, expected: Int) -> MessageBytes {
        // More room than is needed, as for members that turn out to hold no escapes.
        var (bytes, base) = storage.room(count + 3, expected: expected)
        UnsafeMutableBufferPointer(start: base, count: count).update(repeating: byte)
        bytes.truncate(to: count)
        return bytes
    }

    @Test("messages of a read stand in one block, and each keeps its bytes while others are written")
    func share() {
        var storage = MessageStorage()
        var messages: [MessageBytes] = []
        for number in 0..<20 {
            messages.append(add(UInt8(number), 100, to: &storage, expected: (19 - number) * 103))
        }
        for (number, message) in messages.enumerated() {
            #expect(message.count == 100 && message.allSatisfy { $0 == number })
        }
        let places = messages.map { $0.withUnsafeBytes { Int(bitPattern: $0.baseAddress) } }
        #expect(zip(places, places.dropFirst()).allSatisfy { $1 - $0 == 103 })
    }

    @Test("a block is no larger than its limit, or than the one message that it holds")
    func bounds() {
        var storage = MessageStorage()
        let first = add(1, 10, to: &storage, expected: 1 << 30)
        let large = add(2, 100_000, to: &storage, expected: 1 << 30)
        let later = (0..<100).map { add(UInt8($0), MessageStorage.blockBytes / 4, to: &storage, expected: 1 << 30) }
        #expect(first.allSatisfy { $0 == 1 } && large.count == 100_000 && large.allSatisfy { $0 == 2 })
        for (number, message) in later.enumerated() { #expect(message.allSatisfy { $0 == number }) }
        // Three to a block: the room of a fourth would end behind it.
        let places = later.map { $0.withUnsafeBytes { Int(bitPattern: $0.baseAddress) } }
        let neighbours = zip(places, places.dropFirst()).count { $1 - $0 == MessageStorage.blockBytes / 4 + 3 }
        #expect(neighbours <= 67)
    }

    @Test("two copies of a storage never give the same bytes away")
    func copies() {
        var storage = MessageStorage()
        _ = add(0, 10, to: &storage, expected: 1000)
        var other = storage
        let messages = (1...8).map { number in
            number.isMultiple(of: 2)
                ? add(UInt8(number), 50, to: &storage, expected: 1000)
                : add(UInt8(number), 50, to: &other, expected: 1000)
        }
        for (index, message) in messages.enumerated() { #expect(message.allSatisfy { $0 == index + 1 }) }
    }

    @Test("bytes that are appended leave those that were there, and other messages, as they are")
    func append() {
        var storage = MessageStorage()
        var first = add(1, 4, to: &storage, expected: 1000)
        let second = add(2, 4, to: &storage, expected: 1000)
        let before = first
        first += [3, 3]
        #expect(Array(first) == [1, 1, 1, 1, 3, 3] && Array(before) == [1, 1, 1, 1] && Array(second) == [2, 2, 2, 2])
        #expect(Array(MessageBytes([])) == [] && MessageBytes([7, 8])[1] == 8)
    }

    @Test("a detached message has the same bytes elsewhere")
    func detached() {
        var storage = MessageStorage()
        let bytes = add(1, 4, to: &storage, expected: 1000)
        let message = IncomingMessage(kind: .upstream, bytes: bytes, stanza: ByteSpan(start: 1, count: 2))
        let detached = message.detached()
        #expect(Array(detached.bytes) == [1, 1, 1, 1] && detached.stanza.range == 1..<3)
        #expect(detached.bytes.unsafeBytes.baseAddress != bytes.unsafeBytes.baseAddress)
    }

    @Test("blocks are used again once no message is in them, and no more are kept than the limit")
    func usedAgain() throws {
        let pool = MessageBlockPool(limit: 3)
        func place(_ block: MessageBlock?) -> Int? { block.map { Int(bitPattern: $0.takeAll()) } }
        // One that is let go of at once is the next, too.
        let first = try #require(place(pool.next()))
        for _ in 0..<10 { #expect(place(pool.next()) == first) }
        var kept = (0..<3).map { _ in pool.next() }
        let places = Set(kept.compactMap(place))
        #expect(places.count == 3 && places.contains(first))
        #expect(pool.next() == nil)
        kept.remove(at: 1)
        let free = try #require(place(pool.next()))
        #expect(places.contains(free) && !kept.map(place).contains(free))
        kept = []
        for _ in 0..<9 { #expect(try places.contains(#require(place(pool.next())))) }
    }

    @Test("one that is kept for long is passed by", arguments: [1, 3, 5, 20])
    func passedBy(count: Int) throws {
        let pool = MessageBlockPool(limit: 256)
        let kept = (0..<count).map { _ in pool.next() }
        var places: Set<Int> = []
        for _ in 0..<1_000 { places.insert(Int(bitPattern: try #require(pool.next()).takeAll())) }
        #expect(places.count == 1)
        withExtendedLifetime(kept) {}
    }

    @Test("no byte changes while a message has it, whoever lets go of others, and wherever")
    func intact() async {
        await withTaskGroup(of: Int.self) { group in
            for task in 0..<8 as Range<UInt8> {
                group.addTask {
                    var storage = MessageStorage()
                    var random = SeededGenerator(seed: .init(task))
                    var kept: [(byte: UInt8, bytes: MessageBytes)] = []
                    var wrong = 0
                    for number in 0..<2_000 {
                        let byte = task &* 31 &+ UInt8(truncatingIfNeeded: number)
                        let size = Int.random(in: 1...2_000, using: &random)
                        kept.append(
                            (byte, self.add(byte, size, to: &storage, expected: .random(in: 0...9_000, using: &random)))
                        )
                        guard kept.count > 40 else { continue }
                        let gone = kept.remove(at: .random(in: 0..<kept.count, using: &random))
                        let expected = [UInt8](repeating: gone.byte, count: gone.bytes.count)
                        wrong += Array(gone.bytes) == expected ? 0 : 1
                    }
                    return wrong
                }
            }
            for await wrong in group { #expect(wrong == 0) }
        }
    }
}
