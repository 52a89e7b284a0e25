import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// `GET conflicts` and `conflicts/{key}`, `POST conflicts/{key}/{fingerprint}/release`, and their pages: known ids with
/// other content, and each next to the accepted message.
enum ConflictPart {
    static let part = ConsolePart(
        section: Section("Conflicts", "/conflicts", "M7 4v16M17 4v16M3 8l4-4 4 4M13 16l4 4 4-4"),
        endpoints: [
            .list("listConflicts", list, "Copies of known messages with other content, the latest first."),
            .get("getConflict", "conflicts/{key}", conflict)
                .about("The contents that came under one key, beside the stored one.", .one(ConflictDetail.self))
                .takes([shared, Parameter.reveal]),
            .action("releaseConflict", "conflicts/{key}/{fingerprint}/release", release)
                .about("Hands a conflict's content to the handlers of its category.").takes([key, fingerprint]),
        ],
        pages: [Page(path: "conflicts", make: page), Page(path: "conflicts/:key/:fingerprint", make: compare)]
    )

    private static let shared = Parameter.uuid("key", "The message_key that they share.")
    private static let key = Parameter.uuid("key", "The message_key.")
    private static let fingerprint = Parameter.uuid("fingerprint", "Which content.")

    private static let list = Listing<MessageFilter, ConflictRow, ConflictCursor>(address: "/conflicts", most: 1_000) {
        wanted in
        let aliases = wanted.services.aliases
        var after = wanted.after
        if let name = after?.fingerprint { after?.fingerprint = aliases.fingerprint(of: name) }
        var query = ConflictQuery(filter: wanted.filter, after: after, limit: wanted.limit)
        query.byteLimit = AnswerBounds.page
        let found = try await query.page(wanted.connection)
        let rows = found.rows.map { aliases.named($0).shown(to: wanted.sight) }
        return .init(rows: rows, next: found.isFull ? rows.last?.namedCursor.description : nil)
    }

    private static func conflict(_ request: EndpointRequest) async throws -> Response {
        let (key, sight, aliases) = (MessageKey(try request[shared]), try request.sight, request.services.aliases)
        let detail = try await request.services.reader.withConnection { connection in
            var query = ConflictQuery(filter: MessageFilter(messageKey: key), limit: 100)
            query.byteLimit = AnswerBounds.page
            let found = try await query.page(connection)
            guard !found.rows.isEmpty else { throw Problem.notFound("no conflict has this message_key") }
            return ConflictDetail(
                messageKey: key,
                stored: try await MessageLookup(connection).detail(key, conflictBytes: 0)?.stored,
                conflicts: found.rows.map { aliases.named($0) },
                hasMore: found.isFull
            )
        }
        if sight.tokens { try await request.recordReveal(of: detail.conflicts.count, "conflicts of \(key)") }
        return .json(detail.shown(to: sight).json())
    }

    private static func release(_ request: ActionRequest) async throws -> Response {
        let (key, name, author) = (try request[key], try request[fingerprint], request.author)
        let fingerprint = request.services.aliases.fingerprint(of: name)
        return try await request.perform { connection throws(PostgresError) in
            let outcome = try ConflictRelease.release(connection, MessageKey(key), fingerprint: fingerprint, by: author)
            let (handlers, before): ([String], Timestamp?)
            switch outcome {
            case .unknown: return .failure(.notFound("there is no such conflict: GET conflicts lists them"))
            case .noHandler:
                return .failure(Problem(.noHandler, "nothing was done: no handler wants its category and data"))
            case .released(let names): (handlers, before) = (names, nil)
            case .releasedBefore(let time): (handlers, before) = ([], time)
            }
            let answer: JSONObject = [
                "message_key": key, "fingerprint": name, "outcome": before == nil ? "released" : "released_before",
                "released_before_at": before, "handlers": handlers,
            ]
            return .success(ActionAnswer(answer))
        }
    }

    // MARK: Pages

    private static func page(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, list)
        let columns: [PageColumn<ConflictRow>] = [
            "last_seen_at", "category", "message_id", "device_key", "times_seen",
            PageColumn("released_at", title: "State", cell: state),
            .actions("Compare") { "<a href=\"\($0.address)\">Compare</a>" },
        ]
        let hint: HTML = "A device that uses an id twice for different content would show up here."
        return list.document(
            request,
            "Conflicts",
            "Copies that came under a known id with other content. The first copy was stored; these wait for a decision.",
            list.table("Conflicts", columns, "No conflicts", hint)
        )
    }

    private static func state(_ row: ConflictRow) -> HTML {
        row.releasedAt == nil ? Part.badge(.warning, "open") : Part.badge(.good, "released")
    }

    private static func compare(_ request: PageRequest) async throws -> HTML {
        guard let key = MessageKey(request.part("key")), let name = Digest128(uuid: request.part("fingerprint").utf8)
        else { throw Problem.notFound("a conflict is named by a message_key and a fingerprint: see /conflicts") }
        let (services, sight) = (request.services, request.sight)
        let (filter, print) = (MessageFilter(messageKey: key), services.aliases.fingerprint(of: name))
        let query = ConflictQuery(filter: filter, fingerprint: print, limit: 1)
        let view = try await services.reader.withConnection { connection in
            guard let row = try await query.rows(connection).first else {
                throw Problem.notFound("there is no such conflict any more: see /conflicts")
            }
            let stored = try await MessageLookup(connection).detail(key, conflictBytes: 0)?.stored
            return Comparison(
                row: services.aliases.named(row).shown(to: sight),
                stored: stored?.shown(to: sight),
                now: try await connection.databaseTime(),
                mayAct: request.mayAct
            )
        }
        return request.document(
            "Conflict",
            """
            <p class="crumb"><a href="/conflicts">Conflicts</a> / <span class="mono">\("\(key)")</span></p>
            <div id="conflict" class="stack" data-live>\(view.head)\(view.notice)\(view.facts)</div>\(view.diff)
            """
        )
    }

    private struct Comparison: Sendable {
        let row: ConflictRow
        let stored: StoredMessage?
        let now: Timestamp
        let mayAct: Bool

        private var showsPayloads: Bool { row.copy.sight.payloads }
        private var message: UpstreamMessage { row.copy.message }

        var head: HTML {
            let key = "\(message.messageKey)"
            let address = PageAddress("/api/v1/conflicts").adding(key).adding("\(row.name)").adding("release")
            let release = Act.dialog(
                "release",
                "Release",
                address,
                done: "Released to its handlers",
                kind: .primary,
                isSmall: false,
                """
                <p>The conflicting copy is handed to the handlers of its category, under a key of its own. The stored message stays \
                as it is. This can't be taken back.</p>\(Act.reason("release"))
                """
            )
            return """
                <header class="head"><div><h1>Conflict on \(stranger: message.messageID.shortened(80))</h1>
                <p class="lead">\(ConflictPart.state(row))</p></div>
                <div class="actions"><a class="button" href="\(PageAddress("/messages").adding(key))">Stored message</a>\
                \(HTML.when(mayAct && row.releasedAt == nil, release))</div></header>
                """
        }

        var notice: HTML {
            guard let at = row.releasedAt else { return "" }
            let who: HTML = row.releasedBy.map { " by the role <strong>\($0)</strong>" } ?? ""
            let address = PageAddress("/messages").adding("\(row.releaseKey)")
            let key: HTML = showsPayloads ? "; handlers know it as \(Part.key("\(row.releaseKey)", address))" : ""
            return Part.notice(.good, "Released \(Part.age(at, now: now))\(who)\(key).")
        }

        var facts: HTML {
            let facts: [PageColumn<ConflictRow>] = [
                PageColumn("received_at", title: "First received") { Part.time($0.copy.cursor.receivedAt) },
                PageColumn("last_seen_at", title: "Last received"), PageColumn("times_seen", title: "Times seen"),
                "category", "sender_id",
                showsPayloads ? "fingerprint" : PageColumn("fingerprint") { _ in "hidden" },
            ]
            return Part.card("The conflicting copy", Part.facts(Part.facts(row, now: now, facts)))
        }

        var diff: HTML {
            guard showsPayloads else { return Part.hidden("Difference") }
            guard let stored else {
                let hint: HTML = "Retention has deleted its body, so there is nothing to compare with."
                return Part.card("Difference", Part.empty("The stored message is gone", hint))
            }
            let rows = TextDiff.rows(Self.lines(stored), Self.lines(row.copy))
            let changes = rows.count { $0.left != $0.right }
            return Part.card(
                "Difference",
                count: Amount.counted(changes, "line"),
                """
                <div class="diff"><div><h3>Stored</h3>\(Self.side("Stored", rows.map(\.left), "gone"))</div>
                <div><h3>Conflicting copy</h3>\(Self.side("Conflicting copy", rows.map(\.right), "new"))</div></div>
                """
            )
        }

        /// What the fingerprint covers, except tokens.
        private static func lines(_ message: StoredMessage) -> [String] {
            var lines = [
                "category: \(message.message.category)", "device_key: \(message.message.deviceKey)",
                "message_type: \(message.message.messageType ?? "none")", "data:",
            ]
            lines += message.shownData.map { JSONLayout.lines($0, limit: TextDiff.limit) } ?? ["none"]
            return lines
        }

        /// The most characters shown of a line, and the most bytes of HTML for all lines.
        private static let (widest, longest) = (4_000, 512 << 10)

        private static func side(_ name: String, _ lines: [TextDiff.Line], _ change: HTML) -> HTML {
            var rows = HTML()
            for line in lines {
                switch line {
                case .same(let text): rows += "<span class=\"row\">\(stranger: text.shortened(widest))</span>"
                case .different(let text):
                    rows += "<span class=\"row \(change)\">\(stranger: text.shortened(widest))</span>"
                case .absent: rows += "<span class=\"row\"></span>"
                }
                guard rows.bytes.count < longest else {
                    rows += "<span class=\"row\">…</span>"
                    break
                }
            }
            return "<pre tabindex=\"0\" role=\"region\" aria-label=\"\(name)\">\(rows)</pre>"
        }
    }
}

/// The contents that came under one key, beside the stored one.
struct ConflictDetail: ShownResource {
    var messageKey: MessageKey
    /// Nil where retention has deleted it.
    var stored: StoredMessage?
    var conflicts: [ConflictRow]
    var hasMore: Bool

    static let resource = "ConflictDetail"
    static let leavesOut = true
    static let keepsNull = ["stored"]
    static let fields: [Field<ConflictDetail>] = [
        Field("message_key") { $0.messageKey },
        .changed("stored", \.stored) { stored, sight, _ in stored?.shown(to: sight) },
        .rows("conflicts", \.conflicts),
        Field("more_conflicts") { $0.hasMore ? true : Bool?.none },
    ]
}

extension ConflictRow {
    var address: PageAddress { PageAddress("/conflicts").adding("\(copy.message.messageKey)").adding("\(name)") }
}
