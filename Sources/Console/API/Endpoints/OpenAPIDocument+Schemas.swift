extension OpenAPIDocument {
    /// The schemas of lists, details and the problem, by name.
    static let schemas: [String: String] = [
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
        "Latency": #"""
        {"type":"object","required":["p50","p99"],"properties":{"p50":{"type":["number","null"]},
        "p99":{"type":["number","null"]}},"additionalProperties":false}
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
        "Outcome": #"""
        {"type":"object","description":"What was done; docs/api.md describes each action."}
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
        "Rates": #"""
        {"type":"object","required":["received","stored","duplicates","acked","handled"],
        "properties":{"received":{"type":"number"},"stored":{"type":"number"},"duplicates":{"type":"number"},
        "acked":{"type":"number"},"handled":{"type":"number"}},"additionalProperties":false}
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
        "Table": #"""
        {"type":"object","required":["name","rows_estimate","bytes"],"properties":{"name":{"type":"string"},
        "rows_estimate":{"type":["integer","null"]},"bytes":{"type":"integer"}},"additionalProperties":false}
        """#,
        "WhoAmI": #"""
        {"type":"object","required":["name","role","rights"],"properties":{"name":{"type":"string"},
        "role":{"type":"string","enum":["viewer","operator","auditor"]},"rights":{"type":"array",
        "items":{"type":"string","enum":["read","act","reveal","audit"]}}}}
        """#,
    ]
}
