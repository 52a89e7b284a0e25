import Postgres
import Vocabulary

@testable import Diagnosis

extension AuditCheckStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let (first, last) = (Timestamp(microseconds: 0), Timestamp(microseconds: 1))
        let key = Digest128(high: 0, low: 0)
        return [
            StatementSample("begin", script: begin.text), StatementSample("extent", extent),
            StatementSample("partitions", partitions), StatementSample("retention", retention),
            StatementSample("erasures", erasures), StatementSample("span", span(0..<1)),
            StatementSample("ledger", ledger(0..<1, since: first, until: last)),
            StatementSample("count", count(since: first, until: last)), StatementSample("isErasing", isErasing),
            StatementSample("bodies", bodies(since: first, until: last)),
            StatementSample("queue", queue(key...key, since: first, until: last)),
            StatementSample("unknown", unknown([key])), StatementSample("scopes", scopes),
            StatementSample("quarantined", quarantined(["1"], ["2"])), StatementSample("oldest", oldest),
            StatementSample("begun", begun("1", "1@example.com")),
        ]
    }
}

extension DoctorStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("server", server), StatementSample("standbyNames", standbyNames),
            StatementSample("sequences", sequences(beyond: 0.5)),
            StatementSample("invalidIndexes", invalidIndexes), StatementSample("sessions", sessions),
            StatementSample("prepared", prepared), StatementSample("slots", slots),
            StatementSample("standbys", standbys), StatementSample("standbyWaits", standbyWaits),
            StatementSample("deadRows", deadRows(beyond: 1)), StatementSample("newest", newest),
            StatementSample("mixedScopes", mixedScopes),
            StatementSample("paused", paused), StatementSample("died", died(within: .seconds(1), counted: 1)),
            StatementSample("hasUndatedAttempts", hasUndatedAttempts), StatementSample("ledger", ledger),
            StatementSample("lastHour", lastHour(counted: 1)), StatementSample("workerRoles", workerRoles),
            StatementSample("connectionLimits", connectionLimits), StatementSample("locks", locks),
            StatementSample("uptime", uptime),
            StatementSample("arrivals", arrivals(.quarantine, counted: 1)),
            StatementSample("arrivals, conflicts", arrivals(.conflicts, counted: 1)),
        ]
    }
}

/// The module's catalogs.
let diagnosisCatalogs: [any StatementCatalog.Type] = [
    AuditCheckStatements.self,
    DoctorStatements.self,
]
