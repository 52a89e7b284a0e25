extension OpenAPIDocument {
    private static let key = Parameter(
        place: "header",
        name: "Idempotency-Key",
        schema: #"{"type":"string","minLength":1,"maxLength":255}"#,
        about:
            "Names the request: sent again with the same key within 24 hours it is answered again and not done again.",
        isRequired: true
    )
    private static let name = path("name", #"{"type":"string"}"#, "The handler's name.")
    private static let job = path("id", uuid, "The job.")
    private static let replay = path("id", #"{"type":"string"}"#, "The replay's id or name.")

    private static func post(
        _ path: StaticString,
        _ summary: StaticString,
        _ parameters: [Parameter] = [],
        body: StaticString = "Reason",
        _ answers: [Answer]
    ) -> Operation {
        Operation(
            method: "post",
            path: path,
            summary: summary,
            parameters: parameters + [key],
            body: body,
            answers: answers,
            problems: [404, 409, 410, 413, 415, 422, 502]
        )
    }

    private static let done = [Answer(status: 200, about: "Done", schema: "Outcome")]
    private static let frozen = [
        Answer(status: 200, about: "There is nothing to act on", schema: "Outcome"),
        Answer(status: 201, about: "The frozen set", schema: "Job"),
        Answer(status: 202, about: "The job that was started", schema: "Job"),
    ]

    /// The actions, jobs and the audit trail.
    static var actions: [Operation] {
        [
            post("/handlers/{name}/pause", "Pauses a handler in every worker.", [name], body: "Pause", done),
            post("/handlers/{name}/resume", "Resumes a handler.", [name], done),
            post("/dead/retry", "Freezes dead letters, or queues a frozen set again.", body: "DeadAction", frozen),
            post("/dead/discard", "Freezes dead letters, or deletes a frozen set.", body: "DeadAction", frozen),
            post("/deliveries/retry-now", "Makes waiting deliveries due at once.", body: "RetryNow", done),
            post(
                "/conflicts/{key}/{fingerprint}/release",
                "Hands a conflict's content to the handlers of its category.",
                [path("key", uuid, "The message_key."), path("fingerprint", uuid, "Which content.")],
                done
            ),
            post(
                "/replays/plan",
                "Freezes what a replay to handlers would send; sends nothing.",
                body: "ReplayPlan",
                [
                    Answer(status: 200, about: "There is nothing to send", schema: "PlannedReplay"),
                    Answer(status: 201, about: "The plan", schema: "PlannedReplay"),
                ]
            ),
            post("/replays/{id}/start", "Starts a replay, in the workers.", [replay], body: "ReplayStart", done),
            post("/replays/{id}/pause", "Pauses a replay.", [replay], done),
            post("/replays/{id}/resume", "Resumes a replay.", [replay], done),
            post("/replays/{id}/cancel", "Cancels a replay for good.", [replay], done),
            post(
                "/jobs/{id}/cancel",
                "Ends a job, or a frozen set; what was done stays done.",
                [job],
                [Answer(status: 200, about: "The job", schema: "Job")]
            ),
            Operation(
                method: "get",
                path: "/jobs/{id}",
                summary: "A job, or a frozen set.",
                parameters: [job],
                answers: [Answer(status: 200, about: "The job", schema: "Job")],
                problems: [404]
            ),
            Operation(
                method: "get",
                path: "/jobs/{id}/stream",
                summary: "A job's progress: events `progress`, and `end` at its end, with the job as data.",
                parameters: [job],
                answers: [Answer(status: 200, about: "Events", type: "text/event-stream")],
                problems: [404]
            ),
            Operation(
                method: "get",
                path: "/audit",
                summary: "What people did, the latest first.",
                parameters: [
                    text("who", "Only by this name."), text("action", "Only this action, or group of actions."),
                    text("since", "At or after."), text("until", "Before."),
                    text("after", "The `next` of the page before."),
                    Parameter(
                        place: "query",
                        name: "limit",
                        schema: #"{"type":"integer","minimum":1,"maximum":500,"default":50}"#,
                        about: "The most entries."
                    ),
                ],
                answers: [Answer(status: 200, about: "A page", schema: "AuditTrail")]
            ),
        ]
    }

    static let actionSchemas: [String: String] = [
        "Outcome": #"{"type":"object","description":"What was done; docs/api.md describes each action."}"#,
        "Reason":
            #"{"type":"object","properties":{"reason":{"type":"string","maxLength":1000}},"additionalProperties":false}"#,
        "Pause": #"""
        {"type":"object","properties":{"reason":{"type":"string","maxLength":1000},
        "for":{"type":"string","examples":["30m"]}},"additionalProperties":false}
        """#,
        "DeadAction": #"""
        {"type":"object","description":"First `filter` or `all`, then the `id` that was answered.",
        "properties":{"id":{"type":"string","format":"uuid"},"reason":{"type":"string","maxLength":1000},
        "all":{"type":"boolean"},"filter":{"type":"object","properties":{"handler":{"type":"string"},
        "group":{"type":"string"},"category":{"type":"string"},"message_key":{"type":"string","format":"uuid"},
        "since":{"type":"string"},"until":{"type":"string"}},"additionalProperties":false}},
        "additionalProperties":false}
        """#,
        "RetryNow": #"""
        {"type":"object","properties":{"handler":{"type":"string"},"message_key":{"type":"string","format":"uuid"},
        "category":{"type":"string"},"all":{"type":"boolean"},"limit":{"type":"integer","minimum":1,
        "maximum":10000},"reason":{"type":"string","maxLength":1000}},"additionalProperties":false}
        """#,
        "ReplayStart": #"""
        {"type":"object","properties":{"reason":{"type":"string","maxLength":1000},"again":{"type":"boolean"}},
        "additionalProperties":false}
        """#,
        "ReplayPlan": #"""
        {"type":"object","properties":{"name":{"type":"string","maxLength":100},"reason":{"type":"string"},
        "handlers":{"type":"array","items":{"type":"string"},"maxItems":100},"scope":{"enum":["not_handled","only_failed","all"]},
        "include_replayed":{"type":"boolean"},"rate":{"type":"number"},"speed":{"type":"number"},"concurrency":{"type":"integer"},
        "filter":{"type":"object"}},"additionalProperties":false}
        """#,
    ]
}
