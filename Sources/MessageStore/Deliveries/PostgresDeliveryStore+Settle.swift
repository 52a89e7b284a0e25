package import Pipeline
import Postgres
import Synchronization
import UpstreamKit
import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ batch: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let groups = SettlementGroups(batch, of: handler)
        let isByDevice = walks.withLock { $0.devices[handler] != nil }
        let (held, freed) = try await settle { connection throws(PostgresError) in
            var held = 0
            var freed: [Digest128] = []
            for (statement, rows) in groups.statements(isByDevice: isByDevice) {
                let result = try connection.withParameters { connection throws(PostgresError) in
                    try connection.run(statement, rows)
                }
                held += result.affectedRows
                // Only some of the statements tell the devices, and not every delivery has one.
                if isByDevice {
                    freed += try result.map { row throws(PostgresError) in try row.next(Digest128?.self) }
                        .compactMap(\.self)
                }
            }
            return (held, freed)
        }
        // The next delivery of each of these devices may be claimed now.
        if !freed.isEmpty { walks.withLock { $0.devices[handler]?.add(freed) } }
        return held
    }
}

/// A batch's settlements by what becomes of the rows: each kind is one statement, and a transaction of its own.
private struct SettlementGroups: Sendable {
    private var done: LeaseRows
    private var retried: LeaseRows
    private var dead: LeaseRows
    private var released: LeaseRows
    private var postponed: LeaseRows

    init(_ batch: [Settlement], of handler: String) {
        let none = LeaseRows(handler: handler)
        (done, retried, dead, released, postponed) = (none, none, none, none, none)
        for settlement in batch {
            switch settlement.outcome {
            case .done:
                done.add(settlement)
            case .retry(let delay, let failure):
                retried.add(settlement)
                retried.delays.append(delay)
                retried.errors.append(failure.detail)
            case .dead(let failure, let isCounted):
                dead.add(settlement)
                dead.counted.append(isCounted ? 1 : 0)
                dead.errors.append(failure.detail)
                dead.groups.append(failure.group)
            case .release(let delay, nil):
                released.add(settlement)
                released.delays.append(delay)
            case .release(let delay, let failure?):
                postponed.add(settlement)
                postponed.delays.append(delay)
                postponed.errors.append(failure.detail)
            }
        }
    }

    func statements(isByDevice: Bool) -> [(PreparedStatement<LeaseRows>, LeaseRows)] {
        [
            (isByDevice ? DeliveryStatements.completeByDevice : DeliveryStatements.complete, done),
            (DeliveryStatements.retry, retried),
            (DeliveryStatements.setAside, dead),
            (DeliveryStatements.release, released),
            (DeliveryStatements.postpone, postponed),
        ].filter { !$0.1.keys.isEmpty }
    }
}

extension LeaseRows {
    fileprivate mutating func add(_ settlement: Settlement) {
        keys.append(settlement.messageKey)
        tokens.append(settlement.token)
    }
}
