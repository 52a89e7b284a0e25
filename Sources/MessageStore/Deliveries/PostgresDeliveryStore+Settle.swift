package import Dispatcher
import Postgres
import Synchronization
package import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ batch: [Settlement], of handler: String) async throws(StoreError) -> Int {
        var held = 0
        for part in SettlementPart.parts(of: batch, to: handler, recording) {
            let settled = try await run { connection throws(PostgresError) in try run(part, connection) }
            held += settled.held
            // The next delivery of each of these devices may be claimed now, if the handler is ordered: also where a later
            // part fails, as nothing of this one is left to be repeated.
            if part.kind.freesDevice { walks.withLock { $0.devices[handler]?.settled(settled.devices) } }
        }
        return held
    }

    /// Writes settlements of one kind; returns how many were still ours, and the devices of those that have one.
    func run(
        _ part: SettlementPart,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> (held: Int, devices: [DueDevice]) {
        let settled: [(device: Digest128?, isReplayed: Bool, count: Int)] =
            try recording.run(part.kind.settling, part.rows, isRecorded: part.isRecorded, connection)
            .rows { ($0, $1, $2) }
        let devices = settled.compactMap { settled in
            settled.device.map { DueDevice(device: $0, isReplayed: settled.isReplayed) }
        }
        return (settled.reduce(0) { $0 + $1.count }, devices)
    }
}

extension AttemptRecording {
    /// Runs the statement that also writes history, or the plain one if there is none to write or it is refused.
    func run(
        _ settling: Settling,
        _ rows: SettlementRows,
        isRecorded: Bool,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> PostgresResult {
        func write(_ statement: PreparedStatement<SettlementRows>) throws(PostgresError) -> PostgresResult {
            try connection.withParameters { connection throws(PostgresError) in try connection.run(statement, rows) }
        }
        return try self.write(isWanted: isRecorded) { () throws(PostgresError) in
            do throws(PostgresError) {
                return try write(settling.recorded)
            } catch  where error.failureClass == .missingPartition && connection.isOpen {
                // Its day was made while it was on its way to the rest.
                return try write(settling.recorded)
            }
        } otherwise: { () throws(PostgresError) in
            try write(settling.plain)
        } refusal: { error throws(PostgresError) in
            error.mayBeOfHistory && connection.isOpen ? StoreError(error) : nil
        }
    }
}

/// Settlements of one kind: one statement in its own transaction.
struct SettlementPart: Sendable {
    /// The outcomes, in the order in which they are written.
    enum Kind: Int, Sendable {
        case done
        case retry
        case dead
        case release
        case postpone

        var settling: Settling {
            switch self {
            case .done: SettleStatements.complete
            case .retry: SettleStatements.retry
            case .dead: SettleStatements.setAside
            case .release: SettleStatements.release
            case .postpone: SettleStatements.postpone
            }
        }

        /// Whether the device's next delivery may be claimed.
        var freesDevice: Bool { self == .done || self == .dead }
    }

    var kind: Kind
    var isRecorded: Bool
    var rows: SettlementRows
    /// The attempts to record, in the order of the rows.
    private var attempts: [AttemptRecord?] = []

    init(kind: Kind, isRecorded: Bool, rows: SettlementRows) {
        (self.kind, self.isRecorded, self.rows) = (kind, isRecorded, rows)
    }

    /// A batch's settlements by outcome, and by whether they are recorded.
    static func parts(of batch: [Settlement], to handler: String, _ recording: AttemptRecording) -> [SettlementPart] {
        let isOn = recording.isOn
        var none = SettlementRows(handler: handler)
        none.history.worker = recording.worker
        var parts: [SettlementPart] = []
        for settlement in batch {
            let (kind, delay, failure): (Kind, Duration?, HandlerFailure?) =
                switch settlement.outcome {
                case .done: (.done, nil, nil)
                case .retry(let delay, let failure): (.retry, delay, failure)
                case .dead(let failure, _): (.dead, nil, failure)
                case .release(let delay, let failure): (failure == nil ? .release : .postpone, delay, failure)
                }
            // A dead letter is recorded even without an attempt.
            let isRecorded = isOn && (settlement.attempt != nil || kind == .dead)
            let index = parts.firstIndex { $0.kind == kind && $0.isRecorded == isRecorded } ?? parts.count
            if index == parts.count { parts.append(SettlementPart(kind: kind, isRecorded: isRecorded, rows: none)) }
            parts[index].add(settlement, delay, failure)
        }
        let now = ContinuousClock.now
        for index in parts.indices { parts[index].writeHistory(at: now) }
        return parts.sorted { ($0.kind.rawValue, $0.isRecorded ? 1 : 0) < ($1.kind.rawValue, $1.isRecorded ? 1 : 0) }
    }

    private mutating func add(_ settlement: Settlement, _ delay: Duration?, _ failure: HandlerFailure?) {
        rows.keys.append(settlement.messageKey)
        rows.tokens.append(settlement.token)
        if let delay { rows.delays.append(delay) }
        if let failure {
            rows.errors.append(failure.detail)
            rows.groups.append(failure.group)
        }
        if case .dead(_, let isCounted) = settlement.outcome {
            rows.counted.append(isCounted ? 1 : 0)
            rows.outcomes.append((settlement.attempt?.outcome ?? .exhausted).rawValue)
        }
        if isRecorded { attempts.append(settlement.attempt) }
    }

    /// Encodes the attempts, and orders the rows as they are encoded.
    private mutating func writeHistory(at now: ContinuousClock.Instant) {
        guard kind == .done else {
            for attempt in attempts { rows.history.add(attempt, at: now) }
            return
        }
        let order = rows.history.add(attempts.compactMap(\.self), ofBlock: 0, at: now)
        guard order.count == rows.keys.count else { return }
        rows.keys = order.map { rows.keys[$0] }
        rows.tokens = order.map { rows.tokens[$0] }
    }
}
