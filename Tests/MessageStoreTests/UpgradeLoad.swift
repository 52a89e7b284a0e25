import Digests
import Dispatcher
import IntegrationSupport
import MessageStore
import Vocabulary

/// Writers that commit all the time, as a worker's do: a batch that failed for the database's sake is committed again.
actor Load {
    private let fixture: StoreFixture
    private let writers: Int
    private var next: UInt64 = 0
    private var commits = 0
    private var longest = Duration.zero
    private var isStopping = false
    /// How many messages were stored.
    private(set) var stored: Int64 = 0
    private var lastError = ""
    /// What was not expected.
    private(set) var failures: [String] = []

    init(_ fixture: StoreFixture, writers: Int) {
        self.fixture = fixture
        self.writers = writers
    }

    /// Commits for as long as `body` takes.
    func run<T: Sendable>(_ body: @Sendable (Load) async throws -> T) async throws -> T {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<writers {
                let store = fixture.store()
                group.addTask {
                    while await !self.isStopping { await self.commit(by: store) }
                    await store.close()
                }
            }
            // Not cancelled: a commit that is broken off may have been made.
            defer { isStopping = true }
            return try await body(self)
        }
    }

    /// Waits until so many commits that begin from now on have ended.
    func waitForCommits(_ count: Int) async throws {
        // One of each writer may be under way.
        let wanted = commits + count + writers
        try await waitUntil("commits go on; \(lastError)") { commits >= wanted }
    }

    /// The longest commit since the last call, waits between its attempts included.
    func takeLongest() -> Duration {
        defer { longest = .zero }
        return longest
    }

    /// With the key that the codec derives where ids are unique for a sender.
    private static func message(_ number: UInt64) -> IncomingMessage {
        var message = IncomingMessage.make(number, id: "m-\(number)")
        message.messageKey = Digest128(hashing: "\(StoreFixture.senders[0])\0m-\(number)")
        message.isKeyedByDevice = false
        return message
    }

    private func commit(by store: MessageStore) async {
        let batch = (1...20 as ClosedRange<UInt64>).map { Self.message(next + $0) }
        next += 20
        let begun = ContinuousClock.now
        var isRetry = false
        while true {
            do {
                let outcomes = try await store.commit(batch, leasing: .none, isRetry: isRetry)
                // What an attempt without an answer had stored counts as known.
                if !outcomes.allSatisfy({ $0 == .stored || isRetry && $0 == .duplicate }) {
                    failures.append("\(outcomes)")
                }
                stored += Int64(batch.count)
                commits += 1
                longest = max(longest, .now - begun)
                return
            } catch {
                lastError = "\(error)"
                guard error.kind == .unavailable, .now - begun < .seconds(30) else {
                    failures.append("\(error)")
                    return
                }
                isRetry = true
            }
        }
    }
}
