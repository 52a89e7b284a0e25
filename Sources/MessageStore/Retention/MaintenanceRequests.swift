package import Postgres
package import UpstreamKit
package import Vocabulary

/// What somebody asked for in the console, whose role may not do it: a row of `maintenance_requests`.
package struct MaintenanceRequest: Sendable, Equatable {
    package enum Kind: String, SQLDecodable, CaseIterable, Sendable {
        /// A run of retention, which a worker takes.
        case retention
        /// A device's erasure, which `forget --requests` takes.
        case forget
    }

    package enum State: String, SQLDecodable, CaseIterable, Sendable {
        case open
        /// Taken; it is taken again if it was broken off.
        case running
        case done
        case failed
    }

    package var id: Int64
    package var kind: Kind
    var device: Digest128?
    package var who: String
    package var reason: String
    package var state: State
    package var requestedAt: Timestamp
    package var startedAt: Timestamp?
    package var finishedAt: Timestamp?
    /// What was deleted, or why nothing was.
    package var outcome: String?

    /// The device to erase; nil with retention.
    package var deviceKey: DeviceKey? { device.map(DeviceKey.init) }
    /// Whoever asked, for the audit trail's entries of what is done.
    package var author: AuditAuthor { AuditAuthor(who, via: .console, reason: reason) }
}

package enum MaintenanceRequests {
    /// Asks inside a transaction, and records who did and why; one that is open already stands for it.
    ///
    /// - Returns: Its id; nil if too many are open.
    package static func add(
        _ connection: isolated PostgresConnection,
        _ kind: MaintenanceRequest.Kind,
        _ device: Digest128? = nil,
        count: Int? = nil,
        by author: AuditAuthor
    ) throws(PostgresError) -> Int64? {
        let id: Int64? = try connection.run(MaintenanceStatements.add(kind, device, by: author)).value()
        guard id != nil else { return nil }
        if let device {
            try AuditLog.record(connection, .requestErasure, "device \(device)", count: count, by: author)
        } else {
            try AuditLog.record(connection, .requestRetention, "retention", by: author)
        }
        return id
    }

    /// The latest first.
    package static func list(
        _ connection: PostgresConnection,
        limit: Int
    ) async throws(PostgresError) -> [MaintenanceRequest] {
        try await connection.result(of: MaintenanceStatements.list(limit: limit)).rows(MaintenanceRequest.init)
    }

    // MARK: Retention

    /// Takes a request for a run of retention; nil if there is none.
    package static func takeRetention(
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> (id: Int64, author: AuditAuthor)? {
        try await connection.result(of: MaintenanceStatements.takeRetention).firstRow {
            ($0, AuditAuthor($1, via: .console, reason: $2))
        }
    }

    package static func finishRetention(
        _ connection: PostgresConnection,
        _ id: Int64,
        _ state: MaintenanceRequest.State,
        _ outcome: String
    ) async throws(PostgresError) {
        _ = try await connection.result(of: MaintenanceStatements.finishRetention(id, state, outcome))
    }

    // MARK: Erasures

    /// The erasures to do, the oldest first, over a session of the tables' owner.
    package static func openErasures(
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> [MaintenanceRequest] {
        try await connection.result(of: MaintenanceStatements.openErasures).rows(MaintenanceRequest.init)
    }

    /// Erases what was asked for, and notes the outcome; broken off, it is to be done again.
    ///
    /// Another process may do it at the same time: then each deletes a part, and what has ended stays as it is. A request
    /// that runs has an outcome once stanzas were searched, and only then messages go: where `erasure` found none that
    /// tells the token, this is known.
    package static func perform(
        _ request: MaintenanceRequest,
        _ erasure: Erasure,
        over connection: PostgresConnection,
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> (counts: ErasureCounts, state: MaintenanceRequest.State) {
        let taken: (state: MaintenanceRequest.State, searched: String?)? =
            try await connection.result(of: MaintenanceStatements.start(request.id)).firstRow { ($0, $1) }
        guard let begun = taken, begun.state == .running else {
            return (ErasureCounts(), taken?.state ?? request.state)
        }
        let isPartial = if begun.searched == nil { try await erasure.mayMissStanzas } else { false }
        let counts = try await erasure.run(by: request.author, report: report) { counts throws(PostgresError) in
            guard !isPartial else { return }
            _ = try await connection.result(of: MaintenanceStatements.searched(request.id, counts.quarantine))
        }
        var outcome = counts.tables.filter { $0.count > 0 }.map { "\($0.name) \($0.count)" }.joined(separator: ", ")
        if outcome.isEmpty { outcome = "nothing was left" }
        if begun.searched != nil { outcome += "; more by another run, see the audit trail" }
        if isPartial {
            outcome +=
                "; no message told the token, so that the quarantine was not searched: `forget --token-file` does"
        }
        let state: MaintenanceRequest.State = isPartial ? .failed : .done
        _ = try await connection.result(of: MaintenanceStatements.finish(request.id, state, outcome))
        return (counts, state)
    }
}

enum MaintenanceStatements {
    static func add(_ kind: MaintenanceRequest.Kind, _ device: Digest128?, by author: AuditAuthor) -> SQL {
        "SELECT upstream.request_maintenance(\(kind.rawValue), \(device), \(author.name), \(author.reason))"
    }

    private static let rows = """
        SELECT id, kind, device_key, who, reason, state, requested_at, started_at, finished_at, outcome
        FROM upstream.maintenance_requests
        """

    static func list(limit: Int) -> SQL { "\(raw: rows) ORDER BY id DESC LIMIT \(limit)" }

    static let openErasures: SQL = "\(raw: rows) WHERE finished_at IS NULL AND kind = 'forget' ORDER BY id"

    /// Takes a request unless it has ended; returns its state and outcome.
    static func start(_ id: Int64) -> SQL {
        """
        UPDATE upstream.maintenance_requests
        SET state = CASE WHEN finished_at IS NULL THEN 'running' ELSE state END,
            started_at = CASE WHEN finished_at IS NULL THEN clock_timestamp() ELSE started_at END
        WHERE id = \(id) RETURNING state, outcome
        """
    }

    /// Notes that the quarantine was searched, and how many stanzas were deleted.
    static func searched(_ id: Int64, _ stanzas: Int) -> SQL {
        """
        UPDATE upstream.maintenance_requests SET outcome = \("quarantine \(stanzas)")
        WHERE id = \(id) AND finished_at IS NULL
        """
    }

    static func finish(_ id: Int64, _ state: MaintenanceRequest.State, _ outcome: String) -> SQL {
        """
        UPDATE upstream.maintenance_requests
        SET state = \(state.rawValue), outcome = \(outcome), finished_at = clock_timestamp()
        WHERE id = \(id) AND finished_at IS NULL
        """
    }

    static let takeRetention: SQL = "SELECT id, who, reason FROM upstream.take_retention_request()"

    static func finishRetention(_ id: Int64, _ state: MaintenanceRequest.State, _ outcome: String) -> SQL {
        "SELECT upstream.finish_retention_request(\(id), \(state.rawValue), \(outcome))"
    }
}
