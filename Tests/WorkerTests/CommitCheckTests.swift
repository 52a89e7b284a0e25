import Ingest
import Testing
import Vocabulary
import Worker

/// Nobody's connection.
private final class NoSink: AckSink {
    func settled(_ copies: SettledCopies) {}
}

@Suite("/readyz on what waits to be committed")
struct CommitCheckTests {
    private func submit(_ queue: IngestQueue) {
        let message = IncomingMessage(kind: .upstream, bytes: [1], stanza: ByteSpan(start: 0, count: 1))
        queue.submit([message], from: NoSink())
    }

    @Test("not ready once a message has waited for more than 5 s, in line or under way; ready again when it is settled")
    func waiting() throws {
        let queue = IngestQueue(writers: 2)
        let status = CommitStatus()
        func lines(after seconds: Int) -> [String] {
            let now = ContinuousClock.now + .seconds(seconds)
            return Readiness(CommitChecks.checks(queue: queue, status: status) { now }).report().lines
        }
        let ready = ["[+] commits ok", "[+] standby ok", "[+] draining ok"]
        #expect(lines(after: 60) == ready)
        submit(queue)
        #expect(lines(after: 4) == ready)
        let late = "[-] commits failed: messages have been waiting to be committed for 14 s"
        #expect(lines(after: 14)[0] == late)
        let error = StoreError(
            kind: .unavailable,
            sqlState: "UW002",
            message: "a trigger drops rows",
            failureClass: .other
        )
        status.failed(error)
        #expect(lines(after: 14)[0] == late + ": a trigger drops rows")
        _ = try #require(queue.take(writer: 0))
        #expect(lines(after: 14)[0].hasPrefix(late))
        #expect(queue.take(writer: 0) == nil)
        #expect(lines(after: 14) == ready)
    }

    @Test("not ready while commits wait for a standby, and it says so")
    func standby() {
        let status = CommitStatus()
        let readiness = Readiness(CommitChecks.checks(queue: IngestQueue(), status: status))
        status.standbyWaitBegan()
        #expect(!readiness.report().isReady)
        #expect(readiness.report().lines[1].contains("for a standby to confirm them"))
        status.standbyWaitEnded()
        #expect(readiness.report().isReady)
    }
}
