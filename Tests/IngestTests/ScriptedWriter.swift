import Dispatcher
import Ingest
import IntegrationSupport
import Synchronization
import Vocabulary

/// A database that does what a test tells it to, and remembers what it was asked.
final class ScriptedWriter: MessageWriter {
    private struct State {
        var tries: [[UInt8]] = []
        var retries: [Bool] = []
        var offers: [LeaseOffer] = []
        var committed: [(tag: UInt8, quarantine: QuarantineReason?)] = []
        var outages: Int
        var unregistered: Int
        var refusesAll: Int
    }

    private let state: Mutex<State>
    private let refused: Set<UInt8>
    /// More rows than these run into a limit.
    private let largest: Int
    /// Called at the beginning of each try, before anything is committed.
    private let onTry: @Sendable () async -> Void

    /// `refusesAll`: so many commits are refused, and nothing goes to quarantine meanwhile.
    init(
        outages: Int = 0,
        unregistered: Int = 0,
        refusesAll: Int = 0,
        refused: Set<UInt8> = [],
        largest: Int = .max,
        onTry: @escaping @Sendable () async -> Void = {}
    ) {
        self.largest = largest
        state = Mutex(State(outages: outages, unregistered: unregistered, refusesAll: refusesAll))
        self.refused = refused
        self.onTry = onTry
    }

    func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        await onTry()
        let error = state.withLock { state -> StoreError? in
            state.tries.append(batch.map { $0.bytes[0] })
            state.offers.append(offer)
            state.retries.append(isRetry)
            if batch.count > largest {
                return StoreError(kind: .timedOut, sqlState: "57014", message: "too slow", failureClass: .timeout)
            }
            if state.unregistered > 0 {
                state.unregistered -= 1
                return StoreError(kind: .unregistered, sqlState: "UW003", message: "who?", failureClass: .other)
            }
            if state.outages > 0 {
                state.outages -= 1
                return StoreError(
                    kind: .unavailable,
                    sqlState: "57P03",
                    message: "starting up",
                    failureClass: .intervention
                )
            }
            if state.refusesAll > 0 {
                state.refusesAll -= 1
                let isOfRow = batch.allSatisfy { $0.quarantine == nil }
                return StoreError(
                    kind: isOfRow ? .refused : .unavailable,
                    sqlState: "54000",
                    message: "no transaction ids",
                    failureClass: .limit
                )
            }
            if batch.contains(where: { refused.contains($0.bytes[0]) && $0.quarantine == nil }) {
                return StoreError(kind: .refused, sqlState: "22021", message: "refused", failureClass: .data)
            }
            state.committed += batch.map { ($0.bytes[0], $0.quarantine) }
            return nil
        }
        if let error { throw error }
        return batch.map { $0.quarantine == nil ? .stored : .quarantined }
    }

    var tries: [[UInt8]] { state.withLock { $0.tries } }
    var retries: [Bool] { state.withLock { $0.retries } }
    /// What each try was offered.
    var offers: [LeaseOffer] { state.withLock { $0.offers } }
    var committed: [UInt8] { state.withLock { $0.committed.map(\.tag) } }
    var quarantined: [UInt8] {
        state.withLock { $0.committed.filter { $0.quarantine == .databaseRefused }.map(\.tag) }
    }
}

extension TimeSource {
    /// A clock that only pauses move, and the longest of all random delays.
    static var manual: TimeSource {
        let now = ManualTime()
        return TimeSource(now: { now.instant }, sleep: { now.pass($0) }, random: { 1 })
    }
}
