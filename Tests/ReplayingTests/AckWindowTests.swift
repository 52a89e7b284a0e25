import Testing
import XMPPEndpoint

@Suite("Replays: the window of unacked messages")
struct AckWindowTests {
    private func key(_ number: Int) -> AckWindow.Key { .init(id: "m\(number)".utf8, token: "t".utf8) }

    @Test("what is done is the run of acked messages from the first one on")
    func prefix() {
        var window = AckWindow(from: 100, limit: 10)
        for number in 0..<4 { window.add(key(number), stanza: [UInt8(number)]) }
        let isSecond = window.acked(key(1))
        #expect(isSecond)
        #expect(window.done == 100 && window.inFlight == 3 && window.unacked == [[0], [2], [3]])
        let isFirst = window.acked(key(0))
        #expect(isFirst)
        #expect(window.done == 102 && window.inFlight == 2)
        let isAgain = window.acked(key(0))
        let isStranger = window.acked(key(9))
        #expect(!isAgain && !isStranger && window.done == 102)
    }

    @Test("messages that are passed over count once they are behind")
    func skipping() {
        var window = AckWindow(from: 0, limit: 10)
        window.add(key(0), stanza: [0])
        window.skip()
        #expect(window.done == 0 && window.skipped == 0)
        _ = window.acked(key(0))
        #expect(window.done == 2 && window.skipped == 1)
    }

    @Test("two messages of one id and device take an ack each")
    func twins() {
        var window = AckWindow(from: 0, limit: 10)
        window.add(key(0), stanza: [0])
        window.add(key(0), stanza: [1])
        _ = window.acked(key(0))
        #expect(window.done == 1 && window.inFlight == 1)
        _ = window.acked(key(0))
        #expect(window.done == 2 && window.inFlight == 0)
    }

    @Test("one message that is never acked holds the others up in the end")
    func bound() {
        var window = AckWindow(from: 0, limit: 10)
        window.add(key(-1), stanza: [])
        var sent = 0
        while window.hasRoom, sent < 10_000 {
            window.add(key(sent), stanza: [])
            _ = window.acked(key(sent))
            sent += 1
        }
        #expect(sent < 200 && window.done == 0)
    }

    @Test("against a plain model, with acks in any order", arguments: 0..<20)
    func model(_ seed: UInt64) {
        var random = SystemRandomNumberGenerator()
        var window = AckWindow(from: 0, limit: 7)
        var open: [Int] = []
        var isDone: [Bool] = []
        for _ in 0..<2_000 {
            if window.hasRoom, Bool.random(using: &random) {
                if Int.random(in: 0..<10, using: &random) == 0 {
                    window.skip()
                    isDone.append(true)
                } else {
                    window.add(key(isDone.count), stanza: [])
                    open.append(isDone.count)
                    isDone.append(false)
                }
            } else if let place = open.indices.randomElement(using: &random) {
                let number = open.remove(at: place)
                isDone[number] = true
                let isKnown = window.acked(key(number))
                #expect(isKnown)
            }
            #expect(window.inFlight == open.count)
            #expect(window.done == Int64(isDone.prefix { $0 }.count))
            #expect(window.unacked.count == open.count)
        }
    }
}
