import Testing
import Vocabulary

@testable import XMPP

@Suite("Pings that wait behind our own bytes")
struct KeepaliveTests {
    private static let second: UInt64 = 1_000_000_000

    /// Asks at 30 s with so many bytes waiting, and looks at the counters whenever the timer wants; the seconds at which the
    /// peer was found dead, or nil if that was not before `end`.
    private static func death(
        waiting: UInt64,
        until end: UInt64 = 600,
        acked: (_ second: Double) -> UInt64?
    ) throws -> Double? {
        var session = try makeSession()
        var timer = session.start()
        var now: UInt64 = 0
        while now < end * second {
            now += timer.delay.nanoseconds
            let time = Double(now) / 1e9
            let bytes = acked(time).map {
                SentBytes(acked: $0, waiting: time <= 30 ? waiting : waiting - min($0, waiting))
            }
            switch session.timerFired(timer.id, now: now, sent: bytes) {
            case .ping(_, let next), .wait(let next): timer = next
            case .end(_, .silent): return time
            case let action: throw Unexpected("\(action)")
            }
        }
        return nil
    }

    @Test("while a slow peer takes what was written before the ping, the ping has time; after that as much as ever")
    func slowPeer() throws {
        // 8 kB a second: 160 kB are there after 20 s.
        let death = try Self.death(waiting: 160_000) { UInt64(max($0 - 30, 0) * 8_000) }
        #expect(try #require(death) >= 65 && death ?? 0 <= 68, "\(death ?? 0)")
        // Faster than the ping's time allows: nothing is different.
        let quick = try Self.death(waiting: 8_000) { UInt64(max($0 - 30, 0) * 8_000) }
        #expect(try #require(quick) >= 45 && quick ?? 0 <= 48, "\(quick ?? 0)")
        // Slower and slower: alive as long as it moves within the time.
        #expect(try Self.death(waiting: 10_000_000) { UInt64(max($0 - 30, 0) * 100) } == nil)
    }

    @Test("nothing moves, nothing waits, or only what was written later moves: the ping has its time and no more")
    func deadPeer() throws {
        #expect(try Self.death(waiting: 160_000) { _ in 0 } == 45)
        #expect(try Self.death(waiting: 0) { UInt64(max($0 - 30, 0) * 8_000) } == 45)
        #expect(try Self.death(waiting: 160_000) { _ in nil } == 45)
        // It dies with the peer after 10 s of moving.
        let late = try Self.death(waiting: 160_000) { UInt64(min(max($0 - 30, 0), 10) * 8_000) }
        #expect(try #require(late) >= 55 && late ?? 0 <= 57, "\(late ?? 0)")
    }

    @Test("a server that counts our stanzas further gives the ping time; one that counts the ping has it")
    func counts() throws {
        var session = try makeSession(.offered)
        _ = try session.hear(Said.enabled)
        let start = session.start()
        guard case .refresh(_, let first) = session.timerFired(start.id, now: 5 * Self.second) else {
            throw Unexpected("no second presence")
        }
        _ = session.wrote(300)
        guard case .ping(_, let answer) = session.timerFired(first.id, now: 30 * Self.second) else {
            throw Unexpected("no ping")
        }
        func count(_ h: Int, _ second: UInt64) throws {
            _ = session.stanza(
                try stanza("<a xmlns='urn:xmpp:sm:3' h='\(h)'/>"),
                receivedAt: 0,
                parsedAt: second * Self.second
            )
        }
        try count(100, 40)
        // The same again is nothing new.
        try count(100, 44)
        guard case .wait(let more) = session.timerFired(answer.id, now: 45 * Self.second) else {
            throw Unexpected("dead")
        }
        #expect(more.delay == .seconds(10))
        // Three presences, the acks, and the ping.
        try count(304, 50)
        guard case .wait(let next) = session.timerFired(more.id, now: 55 * Self.second) else {
            throw Unexpected("dead")
        }
        #expect(next.delay == .seconds(25))
        guard case .ping(_, let last) = session.timerFired(next.id, now: 80 * Self.second) else {
            throw Unexpected("no")
        }
        #expect(session.timerFired(last.id, now: 95 * Self.second) == .end([], .silent))
    }

    /// Pings at 30 s a standard server, or a CCS, that sends messages until `end` with so many seconds between them, and
    /// that answers at `answer`; the second at which the peer was found dead, or nil if that was not before 300 s.
    private static func death(
        _ offer: StreamManagement.Offer,
        everySeconds step: UInt64,
        until end: UInt64,
        answer: UInt64? = nil
    ) throws -> UInt64? {
        var session = try makeSession(offer)
        if offer == .offered { _ = try session.hear(Said.enabled) }
        var timer = session.start()
        var (due, id) = (UInt64(timer.delay / .seconds(1)), "")
        for now in UInt64(1)...300 {
            if now > 30, now <= end, now % step == 0 {
                guard
                    case .deliver(let message, _) = session.stanza(
                        try stanza(Said.good),
                        receivedAt: 0,
                        parsedAt: now * second
                    )
                else { throw Unexpected("not delivered") }
                _ = session.committed(1, size: message.bytes.count, now: now * second) { [message] }
            }
            if now == answer {
                let pong = try stanza("<iq type='result' id='\(id)'/>")
                _ = session.stanza(pong, receivedAt: 0, parsedAt: now * second)
            }
            while due <= now {
                switch session.timerFired(timer.id, now: now * second) {
                case .ping(let bytes, let next):
                    // <iq type="get" to="…" id="…">
                    id = String(text(bytes).split(separator: "\"")[5])
                    timer = next
                case .wait(let next), .refresh(_, let next): timer = next
                case .end(_, .silent): return now
                case let action: throw Unexpected("\(action)")
                }
                due = now + UInt64(max(timer.delay / .seconds(1), 1))
            }
        }
        return nil
    }

    @Test("a standard server's answer has time while messages come, which may be all that it had stored; not for ever")
    func flushedStore() throws {
        for offer in [StreamManagement.Offer.missing, .offered] {
            // The answer follows the store.
            #expect(try Self.death(offer, everySeconds: 1, until: 100, answer: 101) == 101 + 30 + 15)
            // The connection dies amid the store.
            let dead = try Self.death(offer, everySeconds: 1, until: 90)
            #expect(dead == 105)
            // A server that sends and does not hear: eight times the ping's time.
            #expect(try Self.death(offer, everySeconds: 1, until: 300) == 30 + 8 * 15)
            // Too slow to show that it goes on.
            #expect(try Self.death(offer, everySeconds: 20, until: 300) == 30 + 15 + 10)
        }
        // Before a CCS's answer stand no more messages than the window.
        #expect(try Self.death(.unused, everySeconds: 1, until: 300) == 45)
    }

    @Test(
        "a server that is asked for its store may read all of it before it sends any; after the first stanza it must go on",
        arguments: [nil, 50, 150, 158] as [UInt64?]
    )
    func silentStore(_ first: UInt64?) throws {
        let second = Self.second
        var session = try makeSession(.missing)
        let start = session.start()
        guard case .refresh = session.timerFired(start.id, now: 5 * second),
            let begun = session.readingPaused(true, now: 29 * second).timer,
            case .withdraw = session.timerFired(begun.id, now: 35 * second),
            let back = session.readingPaused(false, now: 39 * second).timer,
            case .refresh(_, let due) = session.timerFired(back.id, now: 40 * second),
            case .ping(_, var timer) = session.timerFired(due.id, now: 40 * second)
        else { throw Unexpected("not back") }
        var next = 40 + UInt64(timer.delay / .seconds(1))
        for now in UInt64(41)...400 {
            if now == first { _ = session.stanza(try stanza("<message/>"), receivedAt: 0, parsedAt: now * second) }
            guard now == next else { continue }
            switch session.timerFired(timer.id, now: now * second) {
            case .wait(let more), .refresh(_, let more): timer = more
            case .end(_, .silent):
                // 8 times 15 s at most; 15 s from the first stanza, which comes too late at 158.
                #expect(now == min((first ?? 400) + 15, 160))
                return
            case let action: throw Unexpected("\(action)")
            }
            next = now + UInt64(timer.delay / .seconds(1))
        }
        Issue.record("never found dead")
    }

    @Test(
        "our bytes may wait for a server that is busy with its store, until it answers a ping that follows the presence"
    )
    func busyServer() throws {
        let second = Self.second
        #expect(try makeSession().writePatience == 1)
        var session = try makeSession(.missing)
        #expect(session.writePatience == 8)
        let start = session.start()
        /// Answers the last ping.
        func answer(_ number: Int, at now: UInt64) throws {
            let pong = try stanza("<iq type='result' id='r-ping-\(number)'/>")
            _ = session.stanza(pong, receivedAt: 0, parsedAt: now * second)
        }
        guard case .refresh(_, let first) = session.timerFired(start.id, now: 5 * second),
            case .ping = session.timerFired(first.id, now: 30 * second)
        else { throw Unexpected("no ping") }
        try answer(1, at: 31)
        #expect(session.writePatience == 1)
        guard let begun = session.readingPaused(true, now: 40 * second).timer,
            case .withdraw = session.timerFired(begun.id, now: 45 * second),
            let back = session.readingPaused(false, now: 66 * second).timer,
            case .wait(let due) = session.timerFired(back.id, now: 66 * second),
            case .refresh(_, let again) = session.timerFired(due.id, now: 67 * second),
            case .refresh(_, let next) = session.timerFired(again.id, now: 72 * second)
        else { throw Unexpected("not back") }
        #expect(session.writePatience == 8)
        guard case .ping = session.timerFired(next.id, now: 87 * second) else { throw Unexpected("no ping") }
        _ = session.stanza(try stanza(Said.good), receivedAt: 0, parsedAt: 90 * second)
        #expect(session.writePatience == 8)
        try answer(2, at: 91)
        #expect(session.writePatience == 1)
    }

    @Test("a pause amid the store stops that clock too")
    func pausedStore() throws {
        var session = try makeSession(.missing)
        let start = session.start()
        guard case .refresh(_, let first) = session.timerFired(start.id, now: 5 * Self.second),
            case .ping(_, var timer) = session.timerFired(first.id, now: 30 * Self.second)
        else { throw Unexpected("no ping") }
        // Paused half of the time: 240 s instead of 120.
        for now in stride(from: UInt64(31), through: 400, by: 1) {
            if let next = session.readingPaused(now % 2 == 1, now: now * Self.second).timer { timer = next }
            if now % 2 == 0 {
                _ = session.stanza(try stanza("<message/>"), receivedAt: 0, parsedAt: now * Self.second)
            }
            guard now % 15 == 0 else { continue }
            switch session.timerFired(timer.id, now: now * Self.second) {
            case .wait(let next): timer = next
            case .end(_, .silent):
                #expect(now >= 260 && now <= 290, "\(now)")
                return
            case let action: throw Unexpected("\(action)")
            }
        }
        Issue.record("never found dead")
    }

    @Test("while the peer accepts no writes reading pauses, and the clock stands still")
    func blocked() throws {
        var session = try makeSession(.missing)
        let first = session.start()
        guard case .refresh = session.timerFired(first.id, now: 5 * Self.second) else {
            throw Unexpected("no presence")
        }
        guard let begun = session.writable(false, now: 10 * Self.second).timer else { throw Unexpected("no timer") }
        #expect(session.wantsInput == false && begun.delay == .milliseconds(250))
        // A full window beside it changes nothing, nor does room in it alone.
        for _ in 0..<120 { _ = try session.hear(Said.good) }
        #expect(session.committed(120, size: 0, now: 11 * Self.second) { [] }.timer == nil)
        #expect(session.wantsInput == false)
        guard case .withdraw(_, let away) = session.timerFired(begun.id, now: 13 * Self.second),
            case .wait = session.timerFired(away.id, now: 43 * Self.second)
        else { throw Unexpected("not told") }
        guard let back = session.writable(true, now: 70 * Self.second).timer else { throw Unexpected("no timer") }
        #expect(session.wantsInput && back.delay == .seconds(1))
    }
}
