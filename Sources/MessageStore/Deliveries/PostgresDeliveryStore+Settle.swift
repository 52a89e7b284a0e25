package import Pipeline
import Postgres
import Synchronization
import UpstreamKit
import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ batch: [Settlement], of handler: String) async throws(StoreError) -> Int {
        let groups = SettlementGroups(batch)
        let isByDevice = walks.withLock { $0.devices[handler] != nil }
        let (held, freed) = try await settle { connection throws(PostgresError) in
            var held = 0
            var freed: [Digest128] = []
            for (statement, rows) in groups.statements(isByDevice: isByDevice) {
                let result = try connection.withParameters { connection throws(PostgresError) in
                    try connection.execute(statement, rows.parameters(handler))
                }
                held += result.affectedRows
                if isByDevice { freed += (0..<result.count).compactMap { result.digest($0, 0) } }
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
    /// The columns of one statement's arrays; those that it doesn't take are empty.
    struct Rows: Sendable {
        var keys: [Digest128] = []
        var tokens: [Int64] = []
        var delays: [Int64] = []
        var counted: [Int64] = []
        var errors: [String] = []
        var groups: [String] = []

        func parameters(_ handler: String) -> PostgresParameters {
            var parameters = PostgresParameters(capacity: keys.count * 64 + 256)
            parameters.append(handler)
            parameters.append(uuids: keys)
            parameters.append(integers: tokens)
            if !delays.isEmpty { parameters.append(integers: delays) }
            if !counted.isEmpty { parameters.append(integers: counted) }
            if !errors.isEmpty { parameters.append(texts: errors) }
            if !groups.isEmpty { parameters.append(texts: groups) }
            return parameters
        }

        mutating func add(_ settlement: Settlement) {
            keys.append(settlement.messageKey)
            tokens.append(settlement.token)
        }
    }

    private var done = Rows()
    private var retried = Rows()
    private var dead = Rows()
    private var released = Rows()
    private var postponed = Rows()

    init(_ batch: [Settlement]) {
        for settlement in batch {
            switch settlement.outcome {
            case .done:
                done.add(settlement)
            case .retry(let delay, let failure):
                retried.add(settlement)
                retried.delays.append(delay.microseconds)
                retried.errors.append(failure.detail)
            case .dead(let failure, let isCounted):
                dead.add(settlement)
                dead.counted.append(isCounted ? 1 : 0)
                dead.errors.append(failure.detail)
                dead.groups.append(failure.group)
            case .release(let delay, nil):
                released.add(settlement)
                released.delays.append(delay.microseconds)
            case .release(let delay, let failure?):
                postponed.add(settlement)
                postponed.delays.append(delay.microseconds)
                postponed.errors.append(failure.detail)
            }
        }
    }

    func statements(isByDevice: Bool) -> [(PostgresStatement, Rows)] {
        [
            (isByDevice ? DeliveryStatements.completeByDevice : DeliveryStatements.complete, done),
            (DeliveryStatements.retry, retried),
            (DeliveryStatements.setAside, dead),
            (DeliveryStatements.release, released),
            (DeliveryStatements.postpone, postponed),
        ].filter { !$0.1.keys.isEmpty }
    }
}
