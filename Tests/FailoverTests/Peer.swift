import CCSEmulator
import EmulatorSupport
import IntegrationSupport
import XMPP

/// The sender's side of one worker: sends without pause, every kind of message that is acked, and writes down what was
/// sent and what was acked when.
actor Peer {
    /// What was sent and acked under one id.
    struct Entry {
        /// Copies that we sent, each of which is to be acked unless its connection is lost.
        var copies = 0
        /// Whether another content was sent under this id.
        var hasConflict = false
        /// Whether it belongs into quarantine.
        var isOdd = false
        /// Acks of copies, in order.
        var acks = 0
    }

    /// What was sent and acked in one round.
    struct Account {
        var entries: [String: Entry] = [:]
        /// When acks came.
        var times: [ContinuousClock.Instant] = []

        /// Ids that were acked and belong into `messages`.
        var ackedMessages: Set<String> { ids { !$0.isOdd && $0.acks > 0 } }
        /// Ids that were acked and belong into quarantine.
        var ackedOddities: Set<String> { ids { $0.isOdd && $0.acks > 0 } }
        /// Ids whose copy with another content was acked for certain: every copy was.
        var ackedConflicts: Set<String> { ids { $0.hasConflict && $0.acks >= $0.copies } }
        var sentMessages: Set<String> { ids { !$0.isOdd } }
        var sentOddities: Set<String> { ids(where: \.isOdd) }
        var sentConflicts: Set<String> { ids(where: \.hasConflict) }

        private func ids(where condition: (Entry) -> Bool) -> Set<String> {
            Set(entries.filter { condition($0.value) }.keys)
        }
    }

    static let sender = "1234567890"
    static let secret = "FAKE-SECRET-never-in-a-log"

    nonisolated let emulator: Emulator
    private var account = Account()
    private var order: [String] = []
    private var prefix = ""
    private var made = 0
    /// Since when each of the open connections is bound, as far as we know.
    private var boundSince: [Int: ContinuousClock.Instant] = [:]
    private var task: Task<Void, Never>?

    /// More than this many unacked copies wait for nothing: the worker's window is full.
    private static let most = 150
    private static let burst = 4

    init() async throws {
        var configuration = EmulatorConfiguration()
        configuration.credentials = .secrets([Self.sender: Self.secret])
        configuration.recordsAcks = true
        emulator = try await Emulator.start(configuration)
    }

    // MARK: rounds

    /// Begins to send, under ids that begin with `prefix`; what is acked counts for this round from now on.
    func begin(_ prefix: String) {
        self.prefix = prefix
        account = Account()
        order = []
        made = 0
        task = Task {
            await repeating(every: .milliseconds(10)) { await self.sendSome() }
        }
    }

    /// Sends nothing new any more.
    func pause() async {
        task?.cancel()
        await task?.value
        task = nil
    }

    /// What was sent and acked in this round so far.
    func current() async throws -> Account {
        for record in try await emulator.takeAcks() {
            account.times.append(record.at)
            account.entries[String(decoding: record.id, as: UTF8.self)]?.acks += 1
        }
        return account
    }

    /// Resets the connection that was bound first: what it left unacked comes again on the next one.
    ///
    /// Only one that has worked: losing several in a row before that puts the next one off for up to a minute, which is
    /// as it should be and not what is tested here.
    ///
    /// - Returns: Whether there was one.
    func reset() async throws -> Bool {
        guard let first = try await emulator.snapshot().bound.first, let since = boundSince[first.number],
            ContinuousClock.now - since > ReconnectPolicy.workingSession
        else { return false }
        try await emulator.kill(first.number, reset: true)
        return true
    }

    // MARK: sending

    private func sendSome() async {
        guard let snapshot = try? await emulator.snapshot() else { return }
        let connections = snapshot.bound.map(\.number)
        for connection in connections where boundSince[connection] == nil { boundSince[connection] = .now }
        guard !connections.isEmpty, snapshot.tally.unackedCopies < Self.most else { return }
        for _ in 0..<Self.burst {
            made += 1
            let here = connections[made % connections.count]
            let elsewhere = connections[(made + 1) % connections.count]
            let id = "\(prefix)-\(made)"
            await send(id, isOdd: made % 11 == 0, on: here)
            // Copies of what was sent a moment ago, which mostly is unacked, and of what was sent before.
            let recent = made - 1 - made % 5
            let old = made / 2
            if made % 5 == 0 { await repeated(recent, on: here) }
            if made % 7 == 0 { await repeated(recent, on: elsewhere) }
            if made % 13 == 0 { await repeated(old, on: here) }
            if made % 9 == 0 { await conflict(recent, on: elsewhere) }
            if made % 17 == 0 { await conflict(old, on: here) }
        }
    }

    private func repeated(_ number: Int, on connection: Int) async {
        let id = "\(prefix)-\(number)"
        guard let known = account.entries[id] else { return }
        await send(id, isOdd: known.isOdd, on: connection)
    }

    private func conflict(_ number: Int, on connection: Int) async {
        let id = "\(prefix)-\(number)"
        guard let known = account.entries[id], !known.isOdd, !known.hasConflict else { return }
        await send(id, isOdd: false, isConflict: true, on: connection)
    }

    private func send(_ id: String, isOdd: Bool, isConflict: Bool = false, on connection: Int) async {
        let device = "FAKE-device-\(id.hashValue & 15)"
        // Without a category it can't be stored, but acked.
        let category = isOdd ? "" : #","category":"com.example.app""#
        // Before it is sent: its ack may be counted at once.
        let before = account.entries[id]
        account.entries[id, default: Entry(isOdd: isOdd)].copies += 1
        if isConflict { account.entries[id]?.hasConflict = true }
        do {
            try await emulator.inject(
                json: #"{"message_id":"\#(id)","from":"\#(device)"\#(category),"data":{"v":\#(isConflict ? 2 : 1)}}"#,
                id: id,
                to: device,
                on: connection
            )
        } catch {
            // The connection is gone meanwhile: nothing was sent.
            let acks = account.entries[id]?.acks ?? 0
            account.entries[id] = before
            account.entries[id]?.acks = acks
        }
    }
}
