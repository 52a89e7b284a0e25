import Dispatcher
import Testing
import Vocabulary

@testable import MessageStore

@Suite("where claims look")
struct ClaimWalkTests {
    private let now = ContinuousClock.now
    private func place(_ time: Int64) -> ClaimPlace {
        ClaimPlace(
            nextAttemptAt: Timestamp(microseconds: time),
            receivedAt: Timestamp(microseconds: 5),
            key: Digest128(high: 1, low: 1)
        )
    }
    private func around(_ now: Int64, entries: Int64 = 0, paused: Bool = false) -> ClaimSurroundings {
        ClaimSurroundings(now: Timestamp(microseconds: now), entries: entries, isPaused: paused)
    }

    @Test("a full claim moves the front to its last row, another nearly to the present, neither past what commits late")
    func front() {
        var walk = ClaimWalk()
        #expect(walk.front == .start)
        walk.claimed(upTo: place(1_000), isFull: true, around(60_000_000))
        #expect(walk.front == place(1_000))
        walk.claimed(upTo: place(59_990_000), isFull: true, around(60_000_000))
        #expect(walk.front.nextAttemptAt.microseconds == 59_750_000)
        walk.claimed(upTo: nil, isFull: false, around(70_000_000))
        #expect(walk.front.nextAttemptAt.microseconds == 68_000_000)
        walk.claimed(upTo: place(68_500_000), isFull: false, around(69_000_000))
        #expect(walk.front.nextAttemptAt.microseconds == 68_000_000)
    }

    @Test("a paused handler's empty claim moves nothing, and a clock that went back starts anew")
    func exceptions() {
        var walk = ClaimWalk()
        walk.claimed(upTo: nil, isFull: false, around(60_000_000, paused: true))
        #expect(walk.front == .start)
        walk.claimed(upTo: nil, isFull: false, around(60_000_000))
        walk.claimed(upTo: nil, isFull: false, around(50_000_000))
        #expect(walk.front.nextAttemptAt.microseconds == 48_000_000)
    }

    @Test(
        "looks go over the whole range of keys, each key once, in pieces that grow in number with the table",
        arguments: [
            0, 1_000, 2_001, 10_000, 1_000_000, 40_000_000,
        ]
    )
    func pieces(_ entries: Int64) throws {
        var walk = ClaimWalk()
        var time = now
        _ = walk.look(at: time)
        walk.looked(isExhausted: true, around(0, entries: entries))
        var next: UInt64? = nil
        var count: Int64 = 0
        repeat {
            time += .milliseconds(80)
            let look = walk.look(at: time)
            let keys = try #require(look)
            walk.looked(isExhausted: true, around(0, entries: entries))
            if count == 0, keys.lowerBound.high != 0 { continue }
            #expect(keys.lowerBound.high == next ?? 0 && keys.lowerBound.low == 0)
            #expect(keys.upperBound.low == .max)
            count += 1
            next = keys.upperBound.high &+ 1
        } while next != 0
        #expect(count >= entries / ClaimWalk.pieceEntries && count <= max(1, 2 * entries / ClaimWalk.pieceEntries))
    }

    @Test("looks take a bounded part of the time, and one that found more than it may take is repeated")
    func pace() {
        var walk = ClaimWalk()
        _ = walk.look(at: now)
        walk.looked(isExhausted: true, around(0, entries: 1_000_000))
        let first = walk.look(at: now + .seconds(1))
        let tooSoon = walk.look(at: now + .seconds(1) + .milliseconds(79))
        walk.looked(isExhausted: false, around(0, entries: 1_000_000))
        let again = walk.look(at: now + .seconds(2))
        #expect(first != nil && tooSoon == nil && again == first)
    }

    @Test("a walk that is asked once a second, because nothing is due, has gone over 100,000 entries in seconds")
    func idle() throws {
        var walk = ClaimWalk()
        var time = now
        walk.claimed(upTo: nil, isFull: false, around(60_000_000, entries: 100_000))
        var count = 0
        var end: UInt64 = 0
        repeat {
            let look = walk.look(at: time)
            let keys = try #require(look)
            #expect(keys.lowerBound.high == (count == 0 ? 0 : end + 1))
            walk.looked(isExhausted: true, around(0, entries: 100_000))
            end = keys.upperBound.high
            time += .seconds(1)
            count += 1
        } while end != .max
        #expect(count <= 17)
        // No more in one go, however long ago the last look is.
        let late = walk.look(at: time + .seconds(3_600))
        #expect(try #require(late).upperBound.high == (1 << 60) - 1)
    }

    @Test("each device is looked at once for each time it is named, and no more of them are remembered than may be")
    func devices() {
        func device(_ number: Int) -> Digest128 { Digest128(high: 0, low: UInt64(number)) }
        var queue = DeviceQueue()
        for number in [1, 2, 1, 3] { queue.add(device(number)) }
        let first = queue.take(2)
        for number in [1, 3] { queue.add(device(number)) }
        let second = queue.take(9)
        let third = queue.take(9)
        #expect(first == [1, 2].map(device) && second == [3, 1].map(device) && third.isEmpty && queue.isEmpty)
        for number in 0..<(DeviceQueue.limit + 50) { queue.add(device(number)) }
        var count = 0
        while case let some = queue.take(777), !some.isEmpty { count += some.count }
        #expect(count == DeviceQueue.limit)
    }

    @Test("devices with live deliveries go before those with replayed ones alone, which have their turns all the same")
    func liveDevices() {
        func due(_ numbers: ClosedRange<UInt64>, isReplayed: Bool) -> [DueDevice] {
            numbers.map { DueDevice(device: Digest128(high: 0, low: $0), isReplayed: isReplayed) }
        }
        var request = ClaimRequest(handler: "h", limit: 2, lease: .seconds(60), owner: "a", isOrdered: true)
        var walk = DeviceWalk()
        func next() -> [UInt64] { walk.take(for: request).devices.map(\.low) }
        walk.add(due(1...9, isReplayed: true) + due(21...24, isReplayed: false))
        #expect(next() == [21, 22])
        request.owed = 1
        #expect(next() == [1])
        request.owed = 0
        #expect(next() == [23, 24])
        request.replayed = 1
        #expect(next() == [2])
        request.replayed = 0
        #expect(next() == [])
        // What was settled was live: probably the device's next one is, too.
        walk.add(due(21...21, isReplayed: false))
        #expect(next() == [21])
    }
}
