import MessageStore
import Postgres
import Vocabulary

@testable import Console

extension IdempotencyStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("lock", lock("x", "x")),
            StatementSample("find", find("x", "x")),
            StatementSample("used", used("x", limit: 1)),
            StatementSample("keep", keep("x", "x", request: [], ActionAnswer(""))),
            StatementSample("sweep", sweep(limit: 1)),
        ]
    }
}

extension JobStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let job = Digest128(high: 1, low: 1)
        var filter = DeadLetterFilter()
        filter.handler = "orders"
        return [
            StatementSample("freeze", freeze(.retry, filter, who: "x", most: 1)),
            StatementSample("planned", planned(limit: 1)),
            StatementSample("plannedReplays", plannedReplays(limit: 1)),
            StatementSample("held", held),
            StatementSample("release", release),
            StatementSample("start", start(job, "dead.retry", who: "x", reason: nil, rate: RetryRate(0.5))),
            StatementSample("cancel", cancel(job)),
            StatementSample("find", find(job)),
            StatementSample("list", list(isRunning: false, limit: 1)),
            StatementSample("list, running", list(isRunning: true, limit: 1)),
            StatementSample("running", running),
            StatementSample("lock", lock(job)),
            StatementSample("gone", "WITH \(gone(job, 1)) SELECT FROM gone"),
            StatementSample(
                "advance",
                advance(job, done: 1, skipped: 1, isLast: true, dueTo: Timestamp(microseconds: 0))
            ),
            StatementSample("fail", fail(job, "x")),
            StatementSample("note", note(job, "x")),
            StatementSample("deleteItems", deleteItems(job)),
            StatementSample("sweep", sweep(limit: 1)),
        ]
    }
}

/// The module's catalogs.
let consoleCatalogs: [any StatementCatalog.Type] = [
    IdempotencyStatements.self,
    JobStatements.self,
]
