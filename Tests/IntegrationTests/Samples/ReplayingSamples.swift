import MessageStore
import Postgres
import Querying
import Vocabulary

@testable import Replaying

extension EarlierStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let filter = MessageFilter.sample
        let tables: SQL = "\(makeReplays); \(makeMessages); \(PlanStatements.makeSelection)"
        return [
            StatementSample("makeReplays", makeReplays),
            StatementSample("makeMessages", makeMessages),
            StatementSample("findReplays", findReplays(.handlers([], onlyFailed: false), filter), after: tables),
            StatementSample("collectDeliveries", collectDeliveries(for: [], filter), after: tables),
            StatementSample("collectMessages", collectMessages(filter), after: tables),
            StatementSample("counts", counts(.all), after: tables),
        ]
    }
}

extension FeedStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let lease = ReplayLease(replay: Digest128(high: 0, low: 0), owner: "", token: 1, length: .seconds(1))
        return [
            StatementSample("pending", pending),
            StatementSample("advance", advance),
            StatementSample("retreat", retreat(1, lease)),
            StatementSample("skip", skip(1, lease)),
            StatementSample("queue", queue),
            StatementSample("needsRows", needsRows),
            StatementSample("pack", pack),
        ]
    }
}

extension LeaseStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let id = Digest128(high: 0, low: 0)
        let lease = ReplayLease(replay: id, owner: "", token: 1, length: .seconds(1))
        return [
            StatementSample("take", take(id, owner: "", length: .seconds(1))),
            StatementSample("holder", holder(of: id)),
            StatementSample("renew", renew(lease, nil)),
            StatementSample("renew, with a position", renew(lease, .init(done: 0, skipped: 0, bytes: 0))),
            StatementSample("files", files(lease)),
            StatementSample("setFiles", setFiles(lease, "")),
            StatementSample("release", release(lease)),
            StatementSample("end", end(lease, error: nil)),
            StatementSample("progress", progress(lease)),
        ]
    }
}

extension PlanStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let filter = MessageFilter.sample
        let author = AuditAuthor("", via: .command)
        let request = ReplayRequest(name: "", filter: filter, target: .handlers([], .all), by: author)
        let plan = ReplayPlan(request, target: .output(path: nil, format: .ndjson))
        let json = JSONColumn(utf8: [])
        let tables: SQL = "\(EarlierStatements.makeReplays); \(EarlierStatements.makeMessages); \(makeSelection)"
        return [
            StatementSample("unfinished", unfinished("")),
            StatementSample("handlers", handlers),
            StatementSample("makeSelection", makeSelection),
            StatementSample("selectMessages", selectMessages(filter), after: tables),
            StatementSample("selectKept", selectKept(filter, for: [], isSubscribed: true), after: tables),
            StatementSample("selectDeliveries", selectDeliveries(filter, for: [], isSubscribed: true), after: tables),
            StatementSample("standing", "SELECT FROM replay_selection WHERE \(standing(.all))", after: tables),
            StatementSample("standings", standings(request), after: tables),
            StatementSample("categories", categories(request), after: tables),
            StatementSample("span", span(request, hasSeveralHandlers: true), after: tables),
            StatementSample("sample", sample(request), after: tables),
            StatementSample("measuredRate", measuredRate("")),
            StatementSample("insert", insert(request, plan, selection: json, options: json)),
            StatementSample("freeze", freeze(Digest128(high: 0, low: 0), request), after: tables),
        ]
    }
}

extension ReplayStatements: StatementCatalog {
    static var samples: [StatementSample] {
        let id = Digest128(high: 0, low: 0)
        return [
            StatementSample("list", list(limit: 1)),
            StatementSample("find", find("")),
            StatementSample("find, by id", find(id: id)),
            StatementSample("findLocked", findLocked("")),
            StatementSample("abandoned", abandoned),
            StatementSample("lock", lock),
            StatementSample("rivals", rivals(of: id, on: [])),
            StatementSample("change", change(id, to: .running, isRestart: true, JSONColumn(utf8: []))),
            StatementSample("setOptions", setOptions(id, JSONColumn(utf8: []))),
            StatementSample("deleteSelection", deleteSelection(of: id)),
            StatementSample("note", note(id, "", who: "", detail: nil)),
            StatementSample("history", history(of: id)),
            StatementSample("deliveries", deliveries(of: id, to: [])),
        ]
    }
}

extension SelectionStatements: StatementCatalog {
    static var samples: [StatementSample] {
        [StatementSample("messages", messages), StatementSample("times", times)]
    }
}

/// The module's catalogs.
let replayingCatalogs: [any StatementCatalog.Type] = [
    EarlierStatements.self,
    FeedStatements.self,
    LeaseStatements.self,
    PlanStatements.self,
    ReplayStatements.self,
    SelectionStatements.self,
]
