package import Dispatcher
import Postgres
import Synchronization
package import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ batch: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let parts = SettlementParts(batch, of: handler, recording)
        let (held, freed) = try await run { connection throws(PostgresError) in
            var (held, freed) = (0, [Digest128]())
            for part in parts.all {
                let settled = try run(part, connection)
                held += settled.held
                if part.kind.freesDevice { freed += settled.devices }
            }
            return (held, freed)
        }
        // The next delivery of each of these devices may be claimed now, if the handler is ordered.
        if !freed.isEmpty { walks.withLock { $0.devices[handler]?.add(freed) } }
        return held
    }

    /// Writes settlements of one kind; returns how many were still ours, and the devices of those that have one.
    func run(
        _ part: SettlementPart,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> (held: Int, devices: [Digest128]) {
        var (held, devices) = (0, [Digest128]())
        try recording.run(part.kind.settling, part.rows, isRecorded: part.isRecorded, connection).eachRow {
            row throws(PostgresError) in
            if let device = try row.next(Digest128?.self) { devices.append(device) }
            held += try row.next(Int.self)
        }
        return (held, devices)
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

/// A batch's settlements by outcome: each part is one statement in its own transaction.
struct SettlementParts: Sendable {
    /// The non-empty parts.
    private(set) var all: [SettlementPart] = []
    private let handler: String
    private let worker: String

    init(_ batch: [Settlement], of handler: String, _ recording: AttemptRecording) {
        self.handler = handler
        worker = recording.worker
        let isOn = recording.isOn
        for settlement in batch {
            switch settlement.outcome {
            case .done:
                add(settlement, .done, isOn) { _ in }
            case .retry(let delay, let failure):
                add(settlement, .retry, isOn, failure) { $0.delays.append(delay) }
            case .dead(let failure, let isCounted):
                add(settlement, .dead, isOn, failure) { $0.counted.append(isCounted ? 1 : 0) }
            case .release(let delay, nil):
                add(settlement, .release, isOn) { $0.delays.append(delay) }
            case .release(let delay, let failure?):
                add(settlement, .postpone, isOn, failure) { $0.delays.append(delay) }
            }
        }
        let now = ContinuousClock.now
        for index in all.indices { all[index].writeHistory(at: now) }
        all.sort { ($0.kind.rawValue, $0.isRecorded ? 1 : 0) < ($1.kind.rawValue, $1.isRecorded ? 1 : 0) }
    }

    private mutating func add(
        _ settlement: Settlement,
        _ kind: SettlementPart.Kind,
        _ isOn: Bool,
        _ failure: HandlerFailure? = nil,
        _ body: (inout SettlementRows) -> Void
    ) {
        // A dead letter is recorded even without an attempt.
        let isRecorded = isOn && (settlement.attempt != nil || kind == .dead)
        let index: Int
        if let known = all.firstIndex(where: { $0.kind == kind && $0.isRecorded == isRecorded }) {
            index = known
        } else {
            index = all.count
            var rows = SettlementRows(handler: handler)
            rows.history.worker = worker
            all.append(SettlementPart(kind: kind, isRecorded: isRecorded, rows: rows))
        }
        all[index].rows.keys.append(settlement.messageKey)
        all[index].rows.tokens.append(settlement.token)
        if let failure {
            all[index].rows.errors.append(failure.detail)
            all[index].rows.groups.append(failure.group)
        }
        if kind == .dead { all[index].rows.outcomes.append((settlement.attempt?.outcome ?? .exhausted).rawValue) }
        if isRecorded { all[index].attempts.append(settlement.attempt) }
        body(&all[index].rows)
    }
}

/// Settlements of one kind.
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
    var attempts: [AttemptRecord?] = []

    /// Encodes the attempts, and orders the rows as they are encoded.
    mutating func writeHistory(at now: ContinuousClock.Instant) {
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
