import Glibc
import Synchronization
import Vocabulary

/// Opens a session on the first of several hosts that accepts one.
///
/// Each attempt runs on its own thread. A silent host does not hold up the next one, which starts after a quarter of a
/// second, nor the report of others' refusals; and it may still answer during the next round.
final class HostConnector: Sendable {
    /// How long a host has before the next one is tried beside it.
    private static let headStart = Duration.milliseconds(250)

    private struct State {
        /// The hosts with an attempt under way.
        var pending: Set<Int> = []
        /// Ended attempts not yet looked at.
        var ended: [(host: Int, result: Result<OpenedSession, PostgresError>)] = []
        /// The host that the next round begins with.
        var first = 0
        var waiter: Promise<Bool>?
        /// Counts sessions, so that attempts from before the last one are ignored.
        var generation = 0
    }

    private let settings: PostgresSettings
    private let hosts: [HostChoice]
    private let explainsRefusal: Bool
    private let state = Mutex(State())

    /// `explainsRefusal` connects again after a refusal, so that the error has its SQLSTATE: for a waiting caller.
    init(_ settings: PostgresSettings, explainsRefusal: Bool = false) {
        self.settings = settings
        self.explainsRefusal = explainsRefusal
        hosts = settings.isWriter ? settings.hosts : [HostChoice()]
    }

    /// Starts the next round after the last session's host, which proved unusable.
    func skip() { state.withLock { $0.first = ($0.first + 1) % hosts.count } }

    /// Tries every host once, except those whose last attempt is still under way; returns the first session that opens.
    ///
    /// `waitsForSilentHosts`, although others have refused, is for callers without another round. Throws the last
    /// host's answer, or at once when the task is cancelled.
    func open(waitsForSilentHosts: Bool = false) async throws(PostgresError) -> OpenedSession {
        let order = state.withLock { state in (0..<hosts.count).map { (state.first + $0) % hosts.count } }
        var next = 0
        var failure: PostgresError?
        while true {
            if let session = take(&failure) { return session }
            let pending = state.withLock { $0.pending.count }
            // Start the next one when the others have failed or had their time.
            if next < order.count {
                next += 1
                guard start(order[next - 1]) else { continue }
            } else if pending == 0 {
                throw failure ?? PostgresError(.connection, "no host answers")
            }
            let isLast = next == order.count
            let waitsForAny = isLast && (waitsForSilentHosts || failure == nil)
            let isInTime = await wait(atMost: waitsForAny ? nil : Self.headStart)
            guard !Task.isCancelled else {
                throw PostgresError.cancelled("while connecting")
            }
            if isLast, !isInTime, let failure { throw failure }
        }
    }

    /// The session of an ended attempt, or the failure.
    private func take(_ failure: inout PostgresError?) -> OpenedSession? {
        let ended = state.withLock { state in
            defer { state.ended = [] }
            return state.ended
        }
        for (host, result) in ended {
            switch result {
            case .success(let session):
                state.withLock { state in
                    state = State(first: host, generation: state.generation + 1)
                }
                return session
            case .failure(let error): failure = error
            }
        }
        return nil
    }

    /// Starts an attempt; false if one is under way.
    private func start(_ host: Int) -> Bool {
        let (isFree, generation) = state.withLock { ($0.pending.insert(host).inserted, $0.generation) }
        guard isFree else { return false }
        let opening = SessionOpening(settings: settings, host: hosts[host], explainsRefusal: explainsRefusal)
        let isStarted = startThread(name: "pg-connect") { [weak self] in
            let result = Result { () throws(PostgresError) in try opening.open() }
            // Nobody waits any more: the session ends here.
            self?.ended(host, result, of: generation)
        }
        if !isStarted {
            let failure = PostgresError(.local, "can't start a thread to connect with: errno \(errno)")
            ended(host, .failure(failure), of: generation)
        }
        return true
    }

    private func ended(_ host: Int, _ result: Result<OpenedSession, PostgresError>, of generation: Int) {
        let waiter = state.withLock { state -> Promise<Bool>? in
            guard state.generation == generation else { return nil }
            state.pending.remove(host)
            state.ended.append((host, result))
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.fulfil(true)
    }

    /// Waits until an attempt has ended; false at the time limit.
    private func wait(atMost limit: Duration?) async -> Bool {
        let waiter = Promise<Bool>()
        let isReady = state.withLock { state in
            guard state.ended.isEmpty else { return true }
            state.waiter = waiter
            return false
        }
        return isReady ? true : await waiter.value(or: false, within: limit)
    }
}
