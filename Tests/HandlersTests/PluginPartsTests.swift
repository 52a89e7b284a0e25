import Dispatcher
import Testing
import UpstreamKit

@testable import Handlers

/// What decides about a plugin's calls, without a process.
@Suite struct PluginPartsTests {
    private func entry(_ id: UInt64, _ count: Int = 1) -> PluginQueue.Entry {
        .init(id: id, bytes: Array(repeating: 0, count: count))
    }

    // MARK: The queue

    @Test("While a call is under way others collect for the next, up to its limits of messages and bytes")
    func batches() {
        var queue = PluginQueue(batch: 3, bytes: 100, together: 1, alone: 1)
        let begins = (1...9).map { queue.append(entry($0, $0 == 5 ? 90 : 10), to: .together) }
        #expect(begins == [true] + Array(repeating: false, count: 8))
        let calls = (0..<5).map { _ in queue.next(.together).map(\.id) }
        // The fifth would bring the second call over its bytes with the sixth.
        #expect(calls == [[1, 2, 3], [4, 5], [6, 7, 8], [9], []])
        let begins2 = queue.append(entry(10, 1_000), to: .together)
        #expect(begins2, "the caller had ended")
        let large = queue.next(.together).map(\.id)
        #expect(large == [10], "over the limit, but alone")
    }

    @Test("Messages that are to be alone get calls of their own, and hold up no other")
    func alone() {
        var queue = PluginQueue(batch: 10, bytes: 100, together: 1, alone: 2)
        let begins = (1...4).map { queue.append(entry($0), to: .alone) } + [queue.append(entry(5), to: .together)]
        #expect(begins == [true, true, false, false, true])
        let alone = (0..<2).map { _ in queue.next(.alone).map(\.id) }
        #expect(alone == [[1], [2]])
        let together = queue.next(.together).map(\.id)
        #expect(together == [5])
    }

    @Test("A message that is given up waits no longer")
    func removed() {
        var queue = PluginQueue(batch: 10, bytes: 100, together: 1, alone: 1)
        for id in 1...200 { _ = queue.append(entry(UInt64(id), 10), to: .together) }
        let first = queue.next(.together)
        for id in stride(from: 2, through: 200, by: 2) { queue.remove(UInt64(id)) }
        var rest: [UInt64] = []
        while case let batch = queue.next(.together).map(\.id), !batch.isEmpty { rest += batch }
        // Ten were taken by the first call.
        let expected = stride(from: UInt64(11), through: 199, by: 2)
        #expect(rest == Array(expected))
        #expect(first.count == 10)
    }

    @Test("What a call has taken is held here no longer")
    func released() throws {
        var queue = PluginQueue(batch: 10, bytes: 1 << 20, together: 1, alone: 1)
        for id in 1...20 { _ = queue.append(entry(UInt64(id), 100), to: .together) }
        for left in [1_000, 0] {
            let taken = queue.next(.together)
            #expect(taken.count == 10)
            let place = PluginQueue.Track.together.rawValue
            let entries = Mirror(reflecting: queue).descendant("waiting", place, "entries", "_buffer")
            let held = try #require(entries as? ContiguousArray<PluginQueue.Entry?>)
            #expect(held.reduce(0) { $0 + ($1?.bytes.count ?? 0) } == left)
        }
    }

    // MARK: The verdict

    @Test("A crash or a hang counts for a message that was alone; others are given again alone")
    func verdicts() {
        func verdict(_ outcome: PluginFrame.Outcome?, _ end: PluginFrame.End, alone: Bool) -> String {
            let reply = PluginFrame.Reply(end: end, detail: "why", outcomes: [outcome])
            switch PluginVerdict.of(outcome, reply, isAlone: alone) {
            case .again: return "again"
            case .settled(.done): return "done"
            case .settled(.retry(_, let failure)): return "retry \(failure.group)"
            case .settled(.down(_, _, let failure)): return "down \(failure.group)"
            case .settled(.unavailable(_, let failure)): return "unavailable \(failure.group)"
            case .settled(let verdict): return "\(verdict)"
            }
        }
        for isAlone in [true, false] {
            for end in [PluginFrame.End.returned, .unavailable, .crashed, .timedOut, .notLoaded] {
                #expect(verdict(.said(.done), end, alone: isAlone) == "done", "what was said counts")
                #expect(verdict(.unknown, end, alone: isAlone) == "retry plugin set an unknown outcome")
            }
            #expect(verdict(nil, .returned, alone: isAlone) == "retry plugin set no outcome")
            #expect(verdict(nil, .unavailable, alone: isAlone) == "unavailable plugin says it can not work now")
            #expect(verdict(nil, .notLoaded, alone: isAlone) == "unavailable plugin can not be loaded")
        }
        #expect(verdict(nil, .crashed, alone: true) == "retry plugin ended before it answered")
        #expect(verdict(nil, .timedOut, alone: true) == "down plugin gave no answer in time")
        #expect(verdict(nil, .crashed, alone: false) == "again")
        #expect(verdict(nil, .timedOut, alone: false) == "again")
    }

    // MARK: The frames

    private func number(_ value: UInt64, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private func text(_ text: String) -> [UInt8] { number(UInt64(text.utf8.count), 4) + Array(text.utf8) }

    @Test("Every outcome is read as it was written, and a wait is at most 366 days")
    func replies() {
        var bytes: [UInt8] = [2, 2] + text("signal 11") + number(7, 4)
        for (kind, after, reason) in [
            (0, 0, ""), (1, 0, ""), (2, 90_000, "busy"), (2, .max, ""), (3, 0, "no"), (3, 0, ""), (255, 0, ""),
        ] as [(UInt8, UInt64, String)] {
            bytes += [kind] + number(after, 8) + text(reason)
        }
        let reply = PluginFrame.handled(bytes, count: 7)
        #expect(reply?.end == .crashed && reply?.detail == "signal 11")
        #expect(
            reply?.outcomes == [
                nil, .said(.done), .said(.retry(after: .seconds(90), reason: "busy")),
                .said(.retry(after: .seconds(366 * 86_400), reason: nil)), .said(.reject(reason: "no")),
                .said(.reject(reason: "rejected without a reason")), .unknown,
            ]
        )
        #expect(PluginFrame.handled(bytes, count: 6) == nil && PluginFrame.handled(bytes, count: 8) == nil)
        #expect(PluginFrame.opened([1, 4] + text("why"))?.end == .notLoaded)
    }

    @Test("A torn or garbled reply is no reply, and traps nowhere")
    func garbledReplies() {
        let whole =
            [2, 0] + text("") + number(2, 4) + [1] + number(0, 8) + text("") + [3] + number(0, 8) + text("because")
        for count in whole.indices { #expect(PluginFrame.handled(Array(whole.prefix(count)), count: 2) == nil) }
        #expect(PluginFrame.handled(whole + [0], count: 2) == nil)
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
            }
            _ = PluginFrame.handled(bytes, count: 2)
            _ = PluginFrame.opened(bytes)
        }
    }

    @Test("A framed answer is the same however it is torn; a longer or an unexpected one ends the conversation")
    func frames() {
        let frame = number(5, 4) + Array("hello".utf8)
        for cut in 1..<frame.count {
            var conversation = ExecConversation(.frame(limit: 8))
            _ = conversation.send()
            #expect(conversation.receive(frame[..<cut]) == .wait)
            let action = conversation.receive(frame[cut...])
            #expect(action == .answer(Array("hello".utf8)))
            let isOpen = conversation.send()
            #expect(isOpen == .write)
        }
        let cases: [([UInt8], ExecConversation.End)] = [
            (frame + [0], .unasked), (number(9, 4), .tooLong), (number(.max, 4), .tooLong),
            (number(8, 4) + Array(repeating: 1, count: 9), .tooLong),
        ]
        for (bytes, end) in cases {
            var conversation = ExecConversation(.frame(limit: 8))
            _ = conversation.send()
            let action = conversation.receive(bytes)
            #expect(action == .end(end), "\(bytes)")
        }
        var idle = ExecConversation(.frame(limit: 8))
        let unasked = idle.receive(frame)
        #expect(unasked == .end(.unasked))
    }
}
