import Vocabulary

@testable import MessageStore

extension ErasureStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let device = Digest128(high: 0, low: 0)
        let bodies = [Bodies.day("messages", "upstream.messages"), .deadMessages, .conflicts]
        return [
            StatementSample("partitions", partitions), StatementSample("awaitRetention", awaitRetention),
            StatementSample("tokens", tokens(of: device)),
            StatementSample("count", count(of: device)), StatementSample("dequeue", dequeue([device])),
            StatementSample("conceal", conceal([device], receivedAt: [Timestamp(microseconds: 0)])),
            StatementSample("rest", rest(of: device)), StatementSample("lastQuarantined", lastQuarantined),
            StatementSample("stanzas", stanzas(after: 0)),
            StatementSample("deleteQuarantined", deleteQuarantined([1])),
            StatementSample("vacuum", script: vacuum("upstream.dead_messages")),
            StatementSample("record", record(device, until: Timestamp(microseconds: 0))),
        ]
            + bodies.map { StatementSample("choose, \($0)", choose($0, of: device, atMost: 1)) }
            + bodies.map { StatementSample("delete, \($0)", delete($0, at: ["(0,1)"])) }
    }
}

extension MaintenanceStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let device = Digest128(high: 0, low: 1)
        return [
            StatementSample("add", add(.forget, device, by: AuditAuthor("anna", via: .console, reason: "asked"))),
            StatementSample("list", list(limit: 1)), StatementSample("openErasures", openErasures),
            StatementSample("start", start(1)),
            StatementSample("searched", searched(1, 1)), StatementSample("finish", finish(1, .done, "messages 1")),
            StatementSample("takeRetention", takeRetention),
            StatementSample("finishRetention", finishRetention(1, .failed, "busy")),
        ]
    }
}

extension RetentionStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let (time, day) = (Timestamp(microseconds: 0), UTCDay(number: 20_000))
        let policy = RetentionPolicy(messages: .zero, dedupeWindow: .zero)
        return [
            StatementSample("partitions", partitions), StatementSample("needs", needs(before: time)),
            StatementSample("holders", holders(before: time, counted: 1)),
            StatementSample("begin", script: begin), StatementSample("now", now),
            StatementSample("ledger", ledger(before: time)),
            StatementSample("expired", expired(bodies: time, deadLetters: time)),
            StatementSample("policy", self.policy), StatementSample("raise", raise(to: policy)),
            StatementSample("set", set(policy)), StatementSample("keep", keep(day, rows: 1)),
            StatementSample("drop", drop(day)), StatementSample("discardNeeds", discardNeeds(from: time, to: time)),
            StatementSample("lastRun", lastRun), StatementSample("isDue", isDue),
            StatementSample("record", record(RetentionReport(), time)),
        ]
            + Purge.Table.allCases.map { StatementSample("blocks, \($0)", blocks(of: $0)) }
            + Purge.Table.allCases.map { StatementSample("purge, \($0)", purge($0, from: 0, blocks: 1)) }
            + Purge.Rows.allCases.map { StatementSample("purge, \($0)", purge($0, rows: 1)) }
    }
}
