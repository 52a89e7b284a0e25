extension OpenAPIDocument {
    private static let limit = Parameter(
        place: "query",
        name: "limit",
        schema: #"{"type":"integer","minimum":1,"maximum":1000,"default":50}"#,
        about: "The most rows. A page may end earlier, by its bytes; `next` then goes on behind it."
    )
    private static let shortLimit = Parameter(
        place: "query",
        name: "limit",
        schema: #"{"type":"integer","minimum":1,"maximum":200,"default":50}"#,
        about: "The most rows."
    )
    private static let after = Parameter(
        place: "query",
        name: "after",
        schema: #"{"type":"string"}"#,
        about: "Where the page before has ended: its `next`, unchanged."
    )
    private static let reveal = Parameter(
        place: "query",
        name: "reveal",
        schema: #"{"type":"string","enum":["token"]}"#,
        about: "Shows registration tokens; needs the right to, and is recorded in the audit trail."
    )
    private static let since = Parameter(
        place: "query",
        name: "since",
        schema: #"{"type":"string","examples":["2h","yesterday","2026-01-31","2026-01-31T12:00:00Z"]}"#,
        about:
            "At or after: an age, a day or a moment; UTC without an offset (the + of one is written %2B)."
    )
    private static let until = Parameter(
        place: "query",
        name: "until",
        schema: #"{"type":"string"}"#,
        about: "Before; written as `since` is."
    )
    private static let sender = text("sender", "Only to this sender.")
    private static let handler = text("handler", "Only of this handler.")
    private static let messageID = text("message_id", "Only with this id, compared as bytes.")

    static func text(_ name: StaticString, _ about: StaticString) -> Parameter {
        Parameter(place: "query", name: name, schema: #"{"type":"string"}"#, about: about)
    }

    static func path(_ name: StaticString, _ schema: StaticString, _ about: StaticString) -> Parameter {
        Parameter(place: "path", name: name, schema: schema, about: about, isRequired: true)
    }

    static let uuid: StaticString = #"{"type":"string","format":"uuid"}"#

    static let filter: [Parameter] = [
        Parameter(
            place: "query",
            name: "category",
            schema: #"{"type":"array","items":{"type":"string"},"maxItems":100}"#,
            about: "Only this category; given several times, any of them."
        ),
        sender,
        Parameter(
            place: "query",
            name: "device",
            schema: uuid,
            about: "Only from this device, by its device_key."
        ),
        messageID, since, until,
        Parameter(
            place: "query",
            name: "where",
            schema:
                #"{"type":"array","items":{"type":"string"},"maxItems":100,"examples":[["data.total>=190"]]}"#,
            about:
                "Only messages whose data matches; given several times, all must. docs/queries.md has the clauses."
        ),
    ]

    private static func list(
        _ path: StaticString,
        _ summary: StaticString,
        _ parameters: [Parameter],
        _ schema: StaticString
    ) -> Operation {
        let answers = [Answer(status: 200, about: "A page", schema: schema)]
        return Operation(
            method: "get",
            path: path,
            summary: summary,
            parameters: parameters,
            answers: answers
        )
    }

    private static func one(
        _ path: StaticString,
        _ summary: StaticString,
        _ parameters: [Parameter],
        _ schema: StaticString
    ) -> Operation {
        let answers = [Answer(status: 200, about: "What was asked for", schema: schema)]
        return Operation(
            method: "get",
            path: path,
            summary: summary,
            parameters: parameters,
            answers: answers,
            problems: [404]
        )
    }

    /// The lists and details.
    static var reading: [Operation] {
        [
            list(
                "/messages",
                "Messages, the latest first",
                filter + [
                    limit, after, reveal,
                    Parameter(
                        place: "query",
                        name: "order",
                        schema: #"{"type":"string","enum":["newest","oldest"],"default":"newest"}"#,
                        about: "The direction."
                    ),
                    Parameter(
                        place: "header",
                        name: "Prefer",
                        schema: #"{"type":"string","examples":["count=estimated"]}"#,
                        about: "`count=estimated` adds the planner's estimate of all that match (RFC 7240)."
                    ),
                ],
                "Messages"
            ),
            one(
                "/messages/{key}",
                "A message with its deliveries, dead letters and conflicts",
                [path("key", uuid, "Its message_key."), reveal],
                "MessageDetail"
            ),
            list(
                "/dead",
                "Dead letters, the latest first",
                [
                    handler, text("group", "Only of this error group."),
                    text("category", "Only of this category."),
                    Parameter(place: "query", name: "message", schema: uuid, about: "Only of this message."),
                    since, until,
                    shortLimit, after,
                ],
                "DeadLetters"
            ),
            list("/dead/groups", "Dead letters by handler and error group", [handler], "DeadGroups"),
            list(
                "/deliveries",
                "Deliveries that wait, with why and when next",
                [handler, shortLimit, after],
                "Deliveries"
            ),
            list(
                "/quarantine",
                "Stanzas that were no usable message, without their bytes, the latest first",
                [
                    sender, text("reason", "Only for this reason, from a closed set."), messageID, since,
                    until, limit,
                    after,
                ],
                "Quarantine"
            ),
            one(
                "/quarantine/{id}",
                "A quarantined stanza as text with its tokens masked",
                [path("id", #"{"type":"integer","format":"int64"}"#, "Its id."), reveal],
                "Stanza"
            ),
            list(
                "/conflicts",
                "Copies of known messages with other content, the latest first",
                filter + [limit, after],
                "Conflicts"
            ),
            one(
                "/conflicts/{key}",
                "The contents that came under one key, beside the stored one",
                [path("key", uuid, "The message_key that they share."), reveal],
                "ConflictDetail"
            ),
            list("/replays", "Replays, the latest first", [limit], "Replays"),
            one(
                "/replays/{id}",
                "A replay with its history",
                [path("id", uuid, "Its id.")],
                "ReplayDetail"
            ),
        ]
    }

    /// The streams and the export.
    static var streams: [Operation] {
        [
            Operation(
                method: "get",
                path: "/messages/stream",
                summary:
                    "Messages as they commit, as Server-Sent Events; `position` events have ids to go on from",
                parameters: filter + [
                    Parameter(
                        place: "query",
                        name: "limit",
                        schema: #"{"type":"integer","minimum":0,"maximum":1000,"default":10}"#,
                        about: "How many stored messages to begin with."
                    ),
                    text("after", "The id of an event: goes on from there."),
                    Parameter(
                        place: "header",
                        name: "Last-Event-ID",
                        schema: #"{"type":"string"}"#,
                        about: "The same, as browsers send it; wins over `after`."
                    ),
                ],
                answers: [Answer(status: 200, about: "Events", type: "text/event-stream")]
            ),
            Operation(
                method: "get",
                path: "/messages/export",
                summary: "Any number of messages, the oldest first, one JSON object a line",
                parameters: filter + [
                    text("after", "received_at, a slash and message_key of the last line there is.")
                ],
                answers: [Answer(status: 200, about: "Lines", type: "application/x-ndjson")]
            ),
        ]
    }

    static var state: [Operation] {
        [
            list(
                "/overview",
                "How things stand: rates, latency, streams, handlers, sizes",
                [],
                "Overview"
            ),
            list("/workers", "The workers, as they tell of themselves", [], "Workers"),
            list("/senders", "The senders, with their streams", [], "Senders"),
            list("/handlers", "The handlers, with what waits for them", [], "Handlers"),
            list("/partitions", "The days that are kept, and the policy", [], "Partitions"),
            list("/whoami", "Who asks, and with what rights", [], "WhoAmI"),
            list("/openapi.json", "This document", [], "Document"),
        ]
    }
}
