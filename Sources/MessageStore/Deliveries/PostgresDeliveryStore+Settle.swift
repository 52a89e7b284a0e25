package import Pipeline
import Postgres
import Synchronization
import UpstreamKit
import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ batch: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let parts = SettlementParts(batch, of: handler, recording)
        let isByDevice = walks.withLock { $0.devices[handler] != nil }
        let (held, freed) = try await run { connection throws(PostgresError) in
            var held = 0
            var freed: [Digest128] = []
            for part in parts.all {
                let settled = try run(part, isByDevice: isByDevice, connection)
                held += settled.held
                freed += settled.freed
            }
            return (held, freed)
        }
        // The next delivery of each of these devices may be claimed now.
        if !freed.isEmpty { walks.withLock { $0.devices[handler]?.add(freed) } }
        return held
    }

    func run(
        _ part: SettlementPart,
        isByDevice: Bool,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> (held: Int, freed: [Digest128]) {
        try recording.write(part.isRecorded, connection) { connection throws(PostgresError) in
            let result = try connection.run(part.kind.recorded(isByDevice: isByDevice), part.rows)
            let tellsDevices = part.kind == .dead || (part.kind == .done && isByDevice)
            return try tellsDevices ? result.devices(isByDevice: isByDevice) : (result.value(), [])
        } otherwise: { connection throws(PostgresError) in
            try connection.run(part.kind.plain(isByDevice: isByDevice), part.rows).devices(isByDevice: isByDevice)
        }
    }
}

extension PostgresResult {
    /// The number of changed rows, and the devices returned; not every delivery has one.
    fileprivate func devices(isByDevice: Bool) throws(PostgresError) -> (held: Int, freed: [Digest128]) {
        guard isByDevice else { return (affectedRows, []) }
        return try (
            affectedRows,
            map { row throws(PostgresError) in try row.next(Digest128?.self) }.compactMap(\.self)
        )
    }
}

extension AttemptRecording {
    /// Runs the statement that also writes history, or the plain one if there is none to write or it is refused.
    func write<T>(
        _ isWanted: Bool,
        _ connection: isolated PostgresConnection,
        _ recorded: (isolated PostgresConnection) throws(PostgresError) -> T,
        otherwise plain: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        guard isWanted, isOn else { return try connection.withParameters(plain) }
        do throws(PostgresError) {
            return try connection.withParameters(recorded)
        } catch {
            guard error.mayBeOfHistory, connection.isOpen else { throw error }
            if error.failureClass == .missingPartition {
                // Its day's partition was created while the row was on its way to the rest.
                do throws(PostgresError) {
                    return try connection.withParameters(recorded)
                } catch {
                    guard error.mayBeOfHistory, connection.isOpen else { throw error }
                }
            }
            // The settlement comes first: if that fails as well, the history was not to blame.
            let value = try connection.withParameters(plain)
            suspend(after: StoreError(error))
            return value
        }
    }
}

/// A batch's settlements by outcome: each part is one statement in its own transaction.
struct SettlementParts: Sendable {
    /// The non-empty parts.
    private(set) var all: [SettlementPart] = []
    private let handler: String
    private let worker: String
    private let now = ContinuousClock.now

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
        for index in all.indices { all[index].cut() }
        all.sort { ($0.kind.rawValue, $0.isRecorded ? 1 : 0) < ($1.kind.rawValue, $1.isRecorded ? 1 : 0) }
    }

    private mutating func add(
        _ settlement: Settlement,
        _ kind: SettlementPart.Kind,
        _ isOn: Bool,
        _ failure: HandlerFailure? = nil,
        _ body: (inout LeaseRows) -> Void
    ) {
        // A dead letter is recorded even without an attempt.
        let isRecorded = isOn && (settlement.attempt != nil || kind == .dead)
        let index: Int
        if let known = all.firstIndex(where: { $0.kind == kind && $0.isRecorded == isRecorded }) {
            index = known
        } else {
            index = all.count
            var rows = LeaseRows(handler: handler)
            rows.worker = worker
            all.append(SettlementPart(kind: kind, isRecorded: isRecorded, rows: rows))
        }
        all[index].rows.keys.append(settlement.messageKey)
        all[index].rows.tokens.append(settlement.token)
        if let failure {
            all[index].rows.errors.append(failure.detail)
            all[index].rows.groups.append(failure.group)
        }
        if isRecorded {
            let attempt = settlement.attempt
            all[index].rows.ages.append(Seconds(attempt.map { $0.started.duration(to: now) } ?? .zero))
            all[index].rows.durations.append(attempt.map { Seconds($0.took) } ?? .none)
            all[index].received.append(attempt?.receivedAt ?? 0)
            if kind == .dead { all[index].rows.outcomes.append((attempt?.outcome ?? .exhausted).rawValue) }
        }
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

        func plain(isByDevice: Bool) -> PreparedStatement<LeaseRows> {
            switch self {
            case .done: isByDevice ? DeliveryStatements.completeByDevice : DeliveryStatements.complete
            case .retry: DeliveryStatements.retry
            case .dead: DeliveryStatements.setAside
            case .release: DeliveryStatements.release
            case .postpone: DeliveryStatements.postpone
            }
        }

        func recorded(isByDevice: Bool) -> PreparedStatement<LeaseRows> {
            switch self {
            case .done: isByDevice ? AttemptStatements.completeByDevice : AttemptStatements.complete
            case .retry: AttemptStatements.retry
            case .dead: AttemptStatements.setAside
            case .release: AttemptStatements.release
            case .postpone: AttemptStatements.postpone
            }
        }
    }

    var kind: Kind
    var isRecorded: Bool
    var rows: LeaseRows
    /// When the messages were received, if recorded.
    var received: [Int64] = []

    /// The most microseconds that one row of history may span: less than a second.
    static let span: Int64 = 999_999

    /// Cuts finished deliveries into the parts that are one row of history each, and orders them.
    mutating func cut() {
        guard kind == .done, isRecorded, let first = received.min(), let last = received.max(), first > 0 else {
            return
        }
        if last - first > Self.span {
            let order = received.indices.sorted { received[$0] < received[$1] }
            rows.keys = order.map { rows.keys[$0] }
            rows.tokens = order.map { rows.tokens[$0] }
            rows.ages = order.map { rows.ages[$0] }
            rows.durations = order.map { rows.durations[$0] }
            received = order.map { received[$0] }
        }
        var start = 0
        for index in received.indices {
            let isLast = index + 1 == received.count
            guard isLast || received[index + 1] - received[start] > Self.span else { continue }
            rows.lows.append(Int64(start + 1))
            rows.highs.append(Int64(index + 1))
            // In the order of their ends if all are within one second, else in order of arrival.
            rows.firsts.append(Timestamp(microseconds: received[start...index].min() ?? first))
            rows.lasts.append(Timestamp(microseconds: received[start...index].max() ?? last))
            start = index + 1
        }
    }
}
