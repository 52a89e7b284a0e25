import Dispatcher
import Postgres
import UpstreamKit
import Vocabulary

@testable import MessageStore

extension ArchiveStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("claim", claim("1", "1@example.com", "host-1")),
            StatementSample("save", save(ArchivePoint(id: "1", time: .now), "1", "1@example.com", "host-1", .complete)),
        ]
    }
}

extension AttemptStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("ensure", ensure(UTCDay(number: 20_000)...UTCDay(number: 20_001))),
            StatementSample("purge", purge),
        ]
    }
}

extension AuditStatements: StatementCatalog {
    static var samples: [StatementSample] {
        var narrow = AuditFilter()
        (narrow.who, narrow.action, narrow.before) = ("anna", "dead.retry", 1)
        (narrow.since, narrow.until) = (Timestamp(microseconds: 0), Timestamp(microseconds: 1))
        let author = AuditAuthor("anna", via: .command)
        return [
            StatementSample("record", record("dead.retry", "x", count: 1, by: author)),
            StatementSample("exists", exists),
            StatementSample("page", page(AuditFilter(), limit: 1)),
            StatementSample("page, narrowed", page(narrow, limit: 1)),
        ]
    }
}

extension CheckStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("facts", facts), StatementSample("missing", missing(WorkerRight.all, of: nil)),
            StatementSample("objects", objects), StatementSample("disk", disk), StatementSample("cluster", cluster),
            StatementSample("messages", messages), StatementSample("expressions", expressions(["a"])),
            StatementSample("citus", citus),
            StatementSample(
                "spreadTables",
                spreadTables,
                after: """
                    CREATE TABLE pg_dist_partition (logicalrel regclass, partmethod "char", repmodel "char")
                    """
            ),
        ]
    }
}

extension ClaimStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            ("ahead", ahead), ("behind", behind), ("suspects", suspects), ("untried", untried),
            ("untriedPiece", untriedPiece), ("lockOrdered", lockOrdered), ("due", due), ("devices", devices),
            ("deviceRange", deviceRange), ("deviceUntried", deviceUntried), ("deviceSuspects", deviceSuspects),
        ].map { StatementSample($0.0, $0.1) }
    }
}

extension ConflictReleaseStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let key = Digest128(high: 1, low: 1)
        return [
            StatementSample("find", find(key, key)),
            StatementSample("queue", queue(key, key)),
            StatementSample("mark", mark(key, key)),
        ]
    }
}

extension DeadLetterStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let all = DeadLetterFilter()
        var narrow = DeadLetterFilter()
        narrow.handler = "orders"
        narrow.group = "timeout"
        narrow.category = "com.example.orders"
        narrow.messageKeys = [MessageKey(Digest128(high: 1, low: 1))]
        narrow.since = Timestamp(microseconds: 0)
        narrow.until = Timestamp(microseconds: 1)
        var several = DeadLetterFilter()
        several.messageKeys = [MessageKey(Digest128(high: 1, low: 1)), MessageKey(Digest128(high: 1, low: 2))]
        var lately = DeadGroupFilter(handler: "orders")
        (lately.since, lately.until) = (narrow.since, narrow.until)
        return [
            StatementSample("list", list(all, limit: 1)),
            StatementSample("list, narrowed", list(narrow, limit: 1)),
            StatementSample("list, after a cursor", list(narrow, after: .sample, limit: 1)),
            StatementSample("list, of several messages", list(several, limit: 1)),
            StatementSample("summary", summary(DeadGroupFilter(), groups: 1, counted: 1)),
            StatementSample("summary, of a handler and a time", summary(lately, groups: 1, counted: 1)),
            StatementSample("groups", groups(narrow)),
            StatementSample("count", count(narrow)),
            StatementSample("act", act(.retry, gone(narrow, limit: 1))),
            StatementSample("act, discard", act(.discard, gone(narrow, limit: 1))),
            StatementSample("gone", "WITH \(gone(narrow, limit: 1)) SELECT FROM gone"),
            StatementSample("gone, in order", "WITH \(gone(narrow, limit: 1, isOrdered: true)) SELECT FROM gone"),
            StatementSample(
                "due",
                "SELECT \(due(after: Timestamp(microseconds: 0), RetryRate(0.5))) FROM upstream.dead_letters"
            ),
        ]
    }
}

extension QuarantineStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("dismiss", dismiss("reason = \("duplicate_key")", limit: 2)),
            StatementSample("dismiss, one", dismiss("id = \(1)", limit: 1)),
        ]
    }
}

extension DeliveryStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("register", register),
            StatementSample("keep", keep),
            StatementSample("followClock", followClock),
            StatementSample("withdraw", withdraw(1)),
            StatementSample("seen", seen),
            StatementSample("unclaimed", unclaimed),
            StatementSample("nextToken", nextToken),
            StatementSample("controls", controls),
            StatementSample(
                "share",
                share(ShareRequest(handler: "orders", whole: 4, most: 4, busy: 0, lease: .seconds(60)), of: 1)
            ),
            StatementSample("hold", hold("orders", HandlerHold(remaining: .seconds(1), reason: "a test"))),
            StatementSample("changeCircuit", changeCircuit("orders", isOpen: true, by: 1)),
            StatementSample("backlog", backlog),
            StatementSample("extend", extend),
            StatementSample("unpackExpired", unpackExpired),
            StatementSample("endUnread", endUnread),
            StatementSample("listen", listen),
        ]
    }
}

extension HandlerStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("list", list(counted: 1)),
            StatementSample(
                "wants",
                "SELECT FROM upstream.messages AS m, upstream.subscriptions AS s WHERE \(wants("m"))"
            ),
            StatementSample("workers", workers),
            StatementSample("pause", pause("orders", for: nil, reason: nil)),
            StatementSample("resume", resume("orders")),
            StatementSample("endHold", "UPDATE upstream.handlers SET \(endHold) WHERE name = 'orders'"),
            StatementSample("isSubscribed", isSubscribed("orders")),
            StatementSample("limitLockWait", limitLockWait),
            StatementSample("lock", lock("orders")),
            StatementSample("lockSubscriptions", lockSubscriptions),
            StatementSample("sweep", sweep("deliveries", "orders", limit: 1)),
            StatementSample("empty", empty("delivery_blocks", "orders")),
            StatementSample("remove", remove("orders")),
        ]
    }
}

extension HealthStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("isReadOnly", isReadOnly), StatementSample("durability", durability),
            StatementSample("upkeep", upkeep),
        ]
    }
}

extension HistoryStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let span = Span(since: Timestamp(microseconds: 0), until: Timestamp(microseconds: 1), step: 60)
        return [StatementSample("read", read(.handler, ["orders"], span))]
    }
}

extension MigrationStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let some = Migration.embedded.first.map {
            [StatementSample("record", record($0)), StatementSample("erase", erase($0))]
        }
        return [
            StatementSample("lock", lock), StatementSample("limitLocks", limitLocks(milliseconds: 1)),
            StatementSample("bootstrap", script: bootstrap),
            StatementSample("leave", script: UnreleasedSchema.leave),
            StatementSample("exists", exists), StatementSample("list", list),
        ] + (some ?? [])
    }
}

extension PartitionStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("ensure", ensure(from: UTCDay(number: 20_000), to: UTCDay(number: 20_001))),
            StatementSample("filterIDs", filterIDs), StatementSample("unfilteredDays", unfilteredDays),
        ]
    }
}

extension SampleStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let (day, instance) = (UTCDay(number: 20_000), Digest128(high: 1, low: 1))
        return [
            StatementSample("write", write([Sample(minute: 1, kind: .store)], of: instance)),
            StatementSample("ensure", ensure(day...day)),
            StatementSample("purge", purge(keeping: .seconds(1))),
        ]
    }
}

extension SenderStatements: StatementCatalog {
    static var samples: [StatementSample] { [StatementSample("list", list)] }
}

extension SettleStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            ("complete", complete), ("retry", retry), ("release", release), ("postpone", postpone),
            ("setAside", setAside), ("completeBlocks", completeBlocks), ("unpack", unpack),
        ].flatMap { [StatementSample($0.0, $0.1.plain), StatementSample("\($0.0), recorded", $0.1.recorded)] }
    }
}

extension StatisticsStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("head", head), StatementSample("tables", tables),
            StatementSample("categories", categories(1)),
        ]
    }
}

extension StoreStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let times: [PostgresType] = [.timestamptz, .timestamptz]
        let rows: [PostgresType] = [.text, .text, .uuid, .text, .text, .text, .text, .text, .text]
        // Preceded by the batch's single sender and its address.
        let offer: [PostgresType] = [.text, .text, .text, .int8, .int8, .text.array, .text.array, .text.array, .int8]
        let stanzas: [PostgresType] = [.text, .text, .text, .text, .bytea, .timestamptz, .bytea]
        return [
            StatementSample(
                "insert",
                insert,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                offer + [.text.array, .text.array, .bool, .bool, .bool] + times
            ),
            StatementSample("insertOne", insertOne, [.uuid, .uuid, .timestamptz, .text, .text] + rows + times),
            StatementSample("ledger", ledger, arrays: [.uuid]),
            StatementSample("conflicts", conflicts, arrays: [.uuid, .uuid, .timestamptz, .text] + rows, times),
            StatementSample("quarantine", quarantine, arrays: stanzas, times),
            StatementSample("lockLoads", lockLoads),
            StatementSample("known", known([])),
            StatementSample("deleteDeliveries", deleteDeliveries(of: [])),
        ]
    }
}

extension WaitingStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let cursor = WaitingCursor(
            dueAt: Timestamp(microseconds: 0),
            receivedAt: Timestamp(microseconds: 0),
            messageKey: MessageKey(Digest128(high: 0, low: 0)),
            handler: "orders"
        )
        return [
            StatementSample("page", page(WaitingFilter(), limit: 1)),
            StatementSample("page, after a cursor", page(.sample, after: cursor, limit: 1)),
            StatementSample("count", count(WaitingFilter(), at: .now)),
            StatementSample("count, narrowed", count(.sample, at: .now)),
            StatementSample("unmoved", unmoved(.sample)), StatementSample("unmoved, all", unmoved(WaitingFilter())),
            StatementSample("retryNow", retryNow(.sample, limit: 1)),
            StatementSample("retryNow, all", retryNow(WaitingFilter(), limit: 1)),
            StatementSample("endHolds", endHolds(.sample)),
            StatementSample("endHolds, all", endHolds(WaitingFilter())),
            StatementSample("cancel", cancel(.sample, error: "x", limit: 1)),
            StatementSample("cancel, all", cancel(WaitingFilter(), error: "x", limit: 1)),
        ]
    }
}

extension BindingStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("list", list), StatementSample("add", add("1234567890", "example.com", "tls-exporter")),
            StatementSample("forget", forget("1234567890")),
        ]
    }
}

extension WorkerStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [
            StatementSample("write", write), StatementSample("purge", purge), StatementSample("remove", remove),
            StatementSample("list", list), StatementSample("dismiss", dismiss(Digest128(high: 1, low: 1))),
        ]
    }
}

extension WaitingFilter {
    fileprivate static var sample: WaitingFilter {
        var filter = WaitingFilter()
        filter.handler = "orders"
        filter.messageKey = MessageKey(Digest128(high: 1, low: 1))
        filter.category = "com.example.orders"
        filter.since = Timestamp(microseconds: 0)
        filter.until = Timestamp(microseconds: 1)
        filter.errorGroup = "timeout"
        filter.count = WaitingCount(at: Timestamp(microseconds: 1), snapshot: "1:1:")
        return filter
    }
}

extension DeadLetterCursor {
    fileprivate static let sample = DeadLetterCursor(
        diedAt: Timestamp(microseconds: 0),
        messageKey: MessageKey(Digest128(high: 0, low: 0)),
        handler: "orders"
    )
}

/// The module's catalogs.
let messageStoreCatalogs: [any StatementCatalog.Type] = [
    ArchiveStatements.self,
    AttemptStatements.self,
    AuditStatements.self,
    BindingStatements.self,
    CheckStatements.self,
    ClaimStatements.self,
    ConflictReleaseStatements.self,
    DeadLetterStatements.self,
    QuarantineStatements.self,
    DeliveryStatements.self,
    ErasureStatements.self,
    HandlerStatements.self,
    HealthStatements.self,
    HistoryStatements.self,
    MaintenanceStatements.self,
    MigrationStatements.self,
    PartitionStatements.self,
    RetentionStatements.self,
    SampleStatements.self,
    SenderStatements.self,
    SettleStatements.self,
    StatisticsStatements.self,
    StoreStatements.self,
    WaitingStatements.self,
    WorkerStatements.self,
]
