import HTTPTypes
import Postgres
import QuerySupport
import Testing

@testable import Console

@Suite("streams when something goes wrong", .timeLimit(.minutes(10)))
struct StreamFaultTests {
    @Test("what was published before a stream's first position is not sent behind it")
    func firstPosition() async throws {
        let parts = try await StreamParts()
        try await parts.feed.start()
        try await parts.publish("early")
        let output = KeptOutput()
        let running = Task { try await parts.stream(to: output).run() }
        try await output.text.wait(for: "event: position")
        try await parts.add("later")
        try await output.text.wait(for: "\"later\"")
        // A position covers it sooner or later: behind that, a stream that broke would have lost it.
        #expect(!output.text.value.contains("\"early\""))
        parts.place.end()
        try await running.value
    }

    @Test("a stream takes one batch at a time from the ring")
    func oneBatch() async throws {
        let parts = try await StreamParts()
        try await parts.feed.start()
        let first = parts.place.first
        for number in 1...3 { try await parts.publish("m\(number)") }
        guard case .batch(let batch, let next) = parts.feed.look(from: first) else {
            Issue.record("no batch")
            return
        }
        #expect(next == first + 1 && batch.events.count <= 1)
        guard case .nothing = parts.feed.look(from: parts.feed.end) else {
            Issue.record("a batch behind the last")
            return
        }
    }

    @Test("a stream ends by itself after its time, so that who follows is checked again")
    func lifetime() async throws {
        let parts = try await StreamParts()
        try await parts.feed.start()
        let output = KeptOutput()
        try await parts.stream(to: output, lifetime: .zero).run()
        #expect(output.text.value.contains("event: position"))
    }

    @Test("a feed whose database fails again and again ends its streams, and a new one is told why")
    func failing() async throws {
        let parts = try await StreamParts(interval: .milliseconds(5))
        try await parts.feed.start()
        try await parts.database.script("ALTER TABLE upstream.messages RENAME TO gone")
        let driver = Task { try await parts.feed.drive() }
        for await _ in parts.place.signals {}
        driver.cancel()
        _ = await driver.result
        await #expect(throws: PostgresError.self) { try await parts.feed.start() }
        try await parts.database.script("ALTER TABLE upstream.gone RENAME TO messages")
        try await parts.feed.start()
    }

    @Test("a request whose client has gone is no failure of the console")
    func cancelled() {
        #expect(Problem(CancellationError())?.status == .serviceUnavailable)
    }
}
