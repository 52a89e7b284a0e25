extension OpenAPIDocument {
    /// What lists and details answer with, and the problem, by name.
    static let schemas: [String: String] = [
        "Attempt": #"""
        {"type":"object","description":"What a handler tried; kept for retention.attempts.",
        "required":["handler","attempt","started_at","outcome","worker"],
        "properties":{"handler":{"type":"string"},"attempt":{"type":"integer"},"started_at":{"type":"string",
        "format":"date-time"},"outcome":{"type":"string"},"worker":{"type":"string"},
        "duration_seconds":{"type":"number"},"status":{"type":"integer"},"error_group":{"type":"string"}},
        "additionalProperties":false}
        """#,
        "Conflict": #"""
        {"type":"object","required":["message_key","received_at","sender_id","message_id","category",
        "device_key","fingerprint","times_seen","last_seen_at"],
        "properties":{"message_key":{"type":"string","format":"uuid"},"received_at":{"type":"string",
        "format":"date-time"},"sender_id":{"type":"string"},"message_id":{"type":"string"},
        "category":{"type":"string"},"device_key":{"type":"string","format":"uuid"},
        "fingerprint":{"type":"string","format":"uuid"},"times_seen":{"type":"integer"},
        "last_seen_at":{"type":"string","format":"date-time"},"release_key":{"type":"string","format":"uuid"},
        "registration_token":{"type":"string"},"message_type":{"type":"string"},"stanza_from":{"type":"string"},
        "data":{},"data_verbatim":{"type":"string"},"data_raw":{"type":"string"},"extra":{"type":"object"},
        "extra_verbatim":{"type":"string"},"payload":{"const":"hidden"},"released_at":{"type":"string",
        "format":"date-time"},"released_by":{"type":"string"}},"additionalProperties":false}
        """#,
        "ConflictDetail": #"""
        {"type":"object","required":["message_key","stored","conflicts"],
        "properties":{"message_key":{"type":"string","format":"uuid"},
        "stored":{"oneOf":[{"$ref":"#/components/schemas/Message"},{"type":"null"}]},
        "conflicts":{"type":"array","items":{"$ref":"#/components/schemas/Conflict"}},
        "more_conflicts":{"const":true}},"additionalProperties":false}
        """#,
        "Conflicts": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Conflict"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Day": #"""
        {"type":"object","required":["day","name","rows_estimate","bytes","fate","waiting_deliveries",
        "dead_letters"],"properties":{"day":{"type":"string","format":"date"},"name":{"type":"string"},
        "rows_estimate":{"type":["integer","null"]},"bytes":{"type":"integer"},"fate":{"type":"string",
        "enum":["ahead","keep","drop","held"]},"waiting_deliveries":{"type":"integer"},
        "dead_letters":{"type":"integer"}},"additionalProperties":false}
        """#,
        "DeadGroup": #"""
        {"type":"object","description":"A count of counted_to is a lower bound.","required":["handler","group",
        "count","counted_to","first_died_at","last_died_at"],"properties":{"handler":{"type":"string"},
        "group":{"type":"string"},"count":{"type":"integer"},"counted_to":{"type":"integer"},
        "first_died_at":{"type":"string","format":"date-time"},"last_died_at":{"type":"string",
        "format":"date-time"}},"additionalProperties":false}
        """#,
        "DeadGroups": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/DeadGroup"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "DeadLetter": #"""
        {"type":"object","required":["handler","message_key","category","received_at","died_at","attempts",
        "group","error","replay_id"],"properties":{"handler":{"type":"string"},"message_key":{"type":"string",
        "format":"uuid"},"category":{"type":["string","null"]},"received_at":{"type":"string",
        "format":"date-time"},"died_at":{"type":"string","format":"date-time"},"attempts":{"type":"integer"},
        "group":{"type":"string"},"error":{"type":"string"},"replay_id":{"type":["string","null"],
        "format":"uuid"}},"additionalProperties":false}
        """#,
        "DeadLetters": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/DeadLetter"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Deliveries": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Delivery"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Delivery": #"""
        {"type":"object","description":"A delivery that is not done, with why it waits and when it is due.",
        "required":["handler","message_key","category","received_at","reason","due_at","attempts","error",
        "worker","lease_until","paused_until","paused_reason","held_until","held_reason","replay_id","in_block"],
        "properties":{"handler":{"type":"string"},"message_key":{"type":"string","format":"uuid"},
        "category":{"type":["string","null"]},"received_at":{"type":"string","format":"date-time"},
        "reason":{"type":"string","enum":["leased","paused","held","retry","postponed","unclaimed","due"]},
        "due_at":{"type":"string","format":"date-time"},"attempts":{"type":"integer"},"error":{"type":["string",
        "null"]},"worker":{"type":["string","null"]},"lease_until":{"type":["string","null"],
        "format":"date-time"},"paused_until":{"type":["string","null"],"format":"date-time"},
        "paused_reason":{"type":["string","null"]},"held_until":{"type":["string","null"],"format":"date-time",
        "description":"Until when the handler asked for a pause (Retry-After)."},
        "held_reason":{"type":["string","null"]},"replay_id":{"type":["string","null"],"format":"uuid"},
        "in_block":{"type":"boolean"}},"additionalProperties":false}
        """#,
        "DeliveryOf": #"""
        {"type":"object","required":["handler","attempts","next_attempt_at"],
        "properties":{"handler":{"type":"string"},"attempts":{"type":"integer"},
        "next_attempt_at":{"type":"string","format":"date-time"},"lease_owner":{"type":"string"},
        "lease_until":{"type":"string","format":"date-time"},"last_error":{"type":"string"},
        "replay_id":{"type":"string","format":"uuid"},"error_group":{"type":"string"},
        "died_at":{"type":"string","format":"date-time"}},"additionalProperties":false}
        """#,
        "Document": #"""
        {"type":"object"}
        """#,
        "Estimate": #"""
        {"type":"object","required":["name","rows_estimate"],"properties":{"name":{"type":"string"},
        "rows_estimate":{"type":["integer","null"]}},"additionalProperties":false}
        """#,
        "Expired": #"""
        {"type":"object","required":["conflicts","quarantine","dead_letters","ledger_estimate","counted_to"],
        "properties":{"conflicts":{"type":"integer"},"quarantine":{"type":"integer"},
        "dead_letters":{"type":"integer"},"ledger_estimate":{"type":["integer","null"]},
        "counted_to":{"type":"integer"}},"additionalProperties":false}
        """#,
        "Handler": #"""
        {"type":"object","description":"A handler; counts of counted_to are lower bounds.","required":["name",
        "categories","running","seen_at","paused","paused_until","paused_reason","held_until","held_reason",
        "circuit","next_probe_at",
        "waiting","oldest_seconds","dead_letters","counted_to","in_progress","attempts_per_second",
        "failed_per_second","workers"],"properties":{"name":{"type":"string"},"categories":{"type":"array",
        "items":{"type":"string"}},"running":{"type":"boolean"},"seen_at":{"type":"string",
        "format":"date-time"},"paused":{"type":"boolean"},"paused_until":{"type":["string","null"],
        "format":"date-time"},"paused_reason":{"type":["string","null"]},"held_until":{"type":["string","null"],
        "format":"date-time","description":"Until when the handler asked for a pause (Retry-After)."},
        "held_reason":{"type":["string","null"]},"circuit":{"type":["string","null"]},
        "next_probe_at":{"type":["string","null"],"format":"date-time"},"waiting":{"type":"integer"},
        "oldest_seconds":{"type":["number","null"]},"dead_letters":{"type":"integer"},
        "counted_to":{"type":"integer"},"in_progress":{"type":"integer"},
        "attempts_per_second":{"type":"number"},"failed_per_second":{"type":"number"},"workers":{"type":"array",
        "items":{"$ref":"#/components/schemas/HandlerWorker"}}},"additionalProperties":false}
        """#,
        "HandlerWorker": #"""
        {"type":"object","required":["worker","categories","ordered","seen_at","alive"],
        "properties":{"worker":{"type":"string"},"categories":{"type":"array","items":{"type":"string"}},
        "ordered":{"type":"boolean"},"seen_at":{"type":"string","format":"date-time"},
        "alive":{"type":"boolean"}},"additionalProperties":false}
        """#,
        "Handlers": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Handler"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Latency": #"""
        {"type":"object","required":["p50","p99"],"properties":{"p50":{"type":["number","null"]},
        "p99":{"type":["number","null"]}},"additionalProperties":false}
        """#,
        "Ledger": #"""
        {"type":"object","required":["received_at"],"properties":{"fingerprint":{"type":"string",
        "format":"uuid"},"received_at":{"type":"string","format":"date-time"}},"additionalProperties":false}
        """#,
        "Message": #"""
        {"type":"object",
        "description":"A message; what it does not have is left out. docs/queries.md has the members.",
        "required":["message_key","received_at","sender_id","message_id","category","device_key"],
        "properties":{"message_key":{"type":"string","format":"uuid"},"received_at":{"type":"string",
        "format":"date-time"},"sender_id":{"type":"string"},"message_id":{"type":"string"},
        "category":{"type":"string"},"device_key":{"type":"string","format":"uuid"},
        "fingerprint":{"type":"string","format":"uuid"},"registration_token":{"type":"string"},
        "message_type":{"type":"string"},"stanza_from":{"type":"string"},"data":{},
        "data_verbatim":{"type":"string"},"data_raw":{"type":"string"},"extra":{"type":"object"},
        "extra_verbatim":{"type":"string"},"payload":{"const":"hidden"}},"additionalProperties":false}
        """#,
        "MessageDetail": #"""
        {"type":"object",
        "description":"What the tables hold about a message; without its body where retention has deleted it.",
        "required":["message_key","attempts","deliveries","dead_letters","conflicts"],
        "properties":{"message_key":{"type":"string","format":"uuid"},"attempts":{"type":"array",
        "items":{"$ref":"#/components/schemas/Attempt"}},"deliveries":{"type":"array",
        "items":{"$ref":"#/components/schemas/DeliveryOf"}},"dead_letters":{"type":"array",
        "items":{"$ref":"#/components/schemas/DeliveryOf"}},"conflicts":{"type":"array",
        "items":{"$ref":"#/components/schemas/Conflict"}},"received_at":{"type":"string","format":"date-time"},
        "sender_id":{"type":"string"},"message_id":{"type":"string"},"category":{"type":"string"},
        "device_key":{"type":"string","format":"uuid"},"fingerprint":{"type":"string","format":"uuid"},
        "registration_token":{"type":"string"},"message_type":{"type":"string"},"stanza_from":{"type":"string"},
        "data":{},"data_verbatim":{"type":"string"},"data_raw":{"type":"string"},"extra":{"type":"object"},
        "extra_verbatim":{"type":"string"},"payload":{"const":"hidden"},
        "ledger":{"$ref":"#/components/schemas/Ledger"},"more_conflicts":{"const":true},"conflicts_with":{"type":"string","format":"uuid"}}}
        """#,
        "Messages": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Message"}},"next":{"type":["string","null"]},
        "estimate":{"type":"integer"}},"additionalProperties":false}
        """#,
        "Overview": #"""
        {"type":"object","description":"Rates are per second, over the workers that are alive.",
        "required":["at","newest_message_at","in_flight","rates","ack_latency_seconds","streams","workers",
        "handlers","sizes","categories"],"properties":{"at":{"type":"string","format":"date-time"},
        "newest_message_at":{"type":["string","null"],"format":"date-time"},"in_flight":{"type":"integer"},
        "rates":{"$ref":"#/components/schemas/Rates"},
        "ack_latency_seconds":{"$ref":"#/components/schemas/Latency"},"streams":{"type":"array",
        "items":{"$ref":"#/components/schemas/Streams"}},"workers":{"type":"array",
        "items":{"$ref":"#/components/schemas/Worker"}},"handlers":{"type":"array",
        "items":{"$ref":"#/components/schemas/Handler"}},"sizes":{"$ref":"#/components/schemas/Sizes"},
        "categories":{"type":"array","items":{"$ref":"#/components/schemas/Estimate"}}},
        "additionalProperties":false}
        """#,
        "Partitions": #"""
        {"type":"object","required":["items","next","missing","policy","expired","last_run_at"],
        "properties":{"items":{"type":"array","items":{"$ref":"#/components/schemas/Day"}},
        "next":{"type":["string","null"]},"missing":{"type":"array","items":{"type":"string","format":"date"}},
        "policy":{"oneOf":[{"$ref":"#/components/schemas/Policy"},{"type":"null"}]},
        "expired":{"$ref":"#/components/schemas/Expired"},"last_run_at":{"type":["string","null"],
        "format":"date-time"}},"additionalProperties":false}
        """#,
        "Policy": #"""
        {"type":"object","required":["messages_seconds","dedupe_window_seconds","dead_letters_seconds",
        "attempts_seconds","set_by","set_at"],"properties":{"messages_seconds":{"type":"number"},
        "dedupe_window_seconds":{"type":"number"},"dead_letters_seconds":{"type":"number"},
        "attempts_seconds":{"type":"number"},"set_by":{"type":"string"},"set_at":{"type":"string",
        "format":"date-time"}},"additionalProperties":false}
        """#,
        "Problem": #"""
        {"type":"object","description":"Problem details (RFC 9457): detail says what to do.","required":["type",
        "status","title","detail"],"properties":{"type":{"type":"string"},"status":{"type":"integer"},
        "title":{"type":"string"},"detail":{"type":"string"}}}
        """#,
        "Quarantine": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Stanza"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Rates": #"""
        {"type":"object","required":["received","stored","duplicates","acked","handled"],
        "properties":{"received":{"type":"number"},"stored":{"type":"number"},"duplicates":{"type":"number"},
        "acked":{"type":"number"},"handled":{"type":"number"}},"additionalProperties":false}
        """#,
        "Replay": #"""
        {"type":"object","required":["replay_id","name","state","held","kind","target","selection","planned",
        "done","skipped","rate","speed","concurrency","reason","created_by","created_at","started_at",
        "finished_at","first_received_at","last_received_at","runs","owner","elapsed_seconds","error"],
        "properties":{"replay_id":{"type":"string","format":"uuid"},"name":{"type":"string"},
        "state":{"type":"string","enum":["planned","running","paused","finished","cancelled","failed"]},
        "held":{"type":"boolean"},"kind":{"type":"string"},"target":{"type":"string"},
        "selection":{"type":"string"},"planned":{"type":"integer"},"done":{"type":"integer"},
        "skipped":{"type":"integer"},"rate":{"type":["number","null"]},"speed":{"type":["number","null"]},
        "concurrency":{"type":["integer","null"]},"reason":{"type":["string","null"]},
        "created_by":{"type":"string"},"created_at":{"type":"string","format":"date-time"},
        "started_at":{"type":["string","null"],"format":"date-time"},"finished_at":{"type":["string","null"],
        "format":"date-time"},"first_received_at":{"type":["string","null"],"format":"date-time"},
        "last_received_at":{"type":["string","null"],"format":"date-time"},"runs":{"type":"integer"},
        "owner":{"type":["string","null"]},"elapsed_seconds":{"type":["number","null"]},
        "error":{"type":["string","null"]}},"additionalProperties":false}
        """#,
        "ReplayDetail": #"""
        {"type":"object","required":["replay_id","name","state","held","kind","target","selection","planned",
        "done","skipped","rate","speed","concurrency","reason","created_by","created_at","started_at",
        "finished_at","first_received_at","last_received_at","runs","owner","elapsed_seconds","error","waiting",
        "dead_letters","history"],"properties":{"replay_id":{"type":"string","format":"uuid"},
        "name":{"type":"string"},"state":{"type":"string","enum":["planned","running","paused","finished",
        "cancelled","failed"]},"held":{"type":"boolean"},"kind":{"type":"string"},"target":{"type":"string"},
        "selection":{"type":"string"},"planned":{"type":"integer"},"done":{"type":"integer"},
        "skipped":{"type":"integer"},"rate":{"type":["number","null"]},"speed":{"type":["number","null"]},
        "concurrency":{"type":["integer","null"]},"reason":{"type":["string","null"]},
        "created_by":{"type":"string"},"created_at":{"type":"string","format":"date-time"},
        "started_at":{"type":["string","null"],"format":"date-time"},"finished_at":{"type":["string","null"],
        "format":"date-time"},"first_received_at":{"type":["string","null"],"format":"date-time"},
        "last_received_at":{"type":["string","null"],"format":"date-time"},"runs":{"type":"integer"},
        "owner":{"type":["string","null"]},"elapsed_seconds":{"type":["number","null"]},
        "error":{"type":["string","null"]},"waiting":{"type":"integer"},"dead_letters":{"type":"integer"},
        "history":{"type":"array","items":{"$ref":"#/components/schemas/ReplayEvent"}}},
        "additionalProperties":false}
        """#,
        "ReplayEvent": #"""
        {"type":"object","required":["at","event","who","done","detail"],"properties":{"at":{"type":"string",
        "format":"date-time"},"event":{"type":"string"},"who":{"type":"string"},"done":{"type":"integer"},
        "detail":{"type":["string","null"]}},"additionalProperties":false}
        """#,
        "Replays": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Replay"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Sender": #"""
        {"type":"object","required":["sender_id","id_scopes","streams"],
        "properties":{"sender_id":{"type":"string"},"id_scopes":{"type":"array","items":{"type":"string",
        "enum":["sender","device"]}},"streams":{"$ref":"#/components/schemas/Streams"}},
        "additionalProperties":false}
        """#,
        "Senders": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Sender"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
        "Sizes": #"""
        {"type":"object","required":["database_bytes","tables","days","days_ahead"],
        "properties":{"database_bytes":{"type":"integer"},"tables":{"type":"array",
        "items":{"$ref":"#/components/schemas/Table"}},"days":{"type":"integer"},
        "days_ahead":{"type":"integer"}},"additionalProperties":false}
        """#,
        "Stanza": #"""
        {"type":"object","required":["id","received_at","last_seen_at","times_seen","bytes","sender_id",
        "reason","detail"],"properties":{"id":{"type":"integer"},"received_at":{"type":"string",
        "format":"date-time"},"last_seen_at":{"type":"string","format":"date-time"},
        "times_seen":{"type":"integer"},"bytes":{"type":"integer"},"sender_id":{"type":"string"},
        "reason":{"type":"string"},"detail":{"type":"string"},"message_id":{"type":"string"},
        "stanza_masked":{"type":"string"},"stanza_base64":{"type":"string"}},"additionalProperties":false}
        """#,
        "Streams": #"""
        {"type":"object","required":["sender","connecting","bound","draining"],
        "properties":{"sender":{"type":"string"},"connecting":{"type":"integer"},"bound":{"type":"integer"},
        "draining":{"type":"integer"}},"additionalProperties":false}
        """#,
        "Table": #"""
        {"type":"object","required":["name","rows_estimate","bytes"],"properties":{"name":{"type":"string"},
        "rows_estimate":{"type":["integer","null"]},"bytes":{"type":"integer"}},"additionalProperties":false}
        """#,
        "WhoAmI": #"""
        {"type":"object","required":["name","role","rights"],"properties":{"name":{"type":"string"},
        "role":{"type":"string","enum":["viewer","operator","auditor"]},"rights":{"type":"array",
        "items":{"type":"string","enum":["read","act","reveal","audit"]}}}}
        """#,
        "Worker": #"""
        {"type":"object","required":["worker","version","roles","started_at","heartbeat_at","alive","stopping",
        "in_flight","streams","rates"],"properties":{"worker":{"type":"string"},"version":{"type":"string"},
        "roles":{"type":"array","items":{"type":"string"}},"started_at":{"type":"string","format":"date-time"},
        "heartbeat_at":{"type":"string","format":"date-time"},"alive":{"type":"boolean"},
        "stopping":{"type":"boolean"},"in_flight":{"type":"integer"},"streams":{"type":"array",
        "items":{"$ref":"#/components/schemas/Streams"}},"rates":{"$ref":"#/components/schemas/WorkerRates"}},
        "additionalProperties":false}
        """#,
        "WorkerRates": #"""
        {"type":"object",
        "description":"Per second, over the seconds before the heartbeat; ack times in seconds.",
        "required":["seconds","received","stored","duplicates","acked","handled","ack_p50","ack_p99"],
        "properties":{"seconds":{"type":"number"},"received":{"type":"number"},"stored":{"type":"number"},
        "duplicates":{"type":"number"},"acked":{"type":"number"},"handled":{"type":"number"},
        "ack_p50":{"type":["number","null"]},"ack_p99":{"type":["number","null"]}},"additionalProperties":false}
        """#,
        "Workers": #"""
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/Worker"}},"next":{"type":["string","null"]}},
        "additionalProperties":false}
        """#,
    ]
}
