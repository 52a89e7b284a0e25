package import MessageStore

// What is shown of samples.

extension History: ShownResource {
    package static let resource = "History"
    package static let about: StaticString? = "What workers measured, minute by minute; kept for retention.samples."
    package static let fields: [Field<History>] = [
        Field("subject", about: "store, sender:ID or handler:NAME") { $0.subject.description },
        Field("range") { $0.range.rawValue },
        Field("step_seconds") { $0.range.step * 60 },
        Field("points", about: "the oldest first, without holes") { $0.points },
    ]
}

extension HistoryPoint: ShownResource {
    package static let resource = "HistoryPoint"
    package static let about: StaticString? = """
        Rates per second, times in seconds. Null where nothing was measured, and where a subject has no such figure.
        """
    package static let fields: [Field<HistoryPoint>] = [
        Field("at", label: "From") { $0.at },
        Field("minutes", about: "the number of minutes measured; 0 for a gap") { $0.minutes },
        Field("received") { $0.rate($0.received) },
        Field("stored") { $0.rate($0.stored) },
        Field("duplicates") { $0.rate($0.duplicates) },
        Field("acked") { $0.rate($0.acked) },
        Field("handled") { $0.rate($0.handled) },
        Field("failed") { $0.rate($0.failed) },
        Field("p50", about: "of the handler's attempts, or of the store's acks; an upper bound") {
            $0.time(below: 0.5)
        },
        Field("p95") { $0.time(below: 0.95) },
        Field("p99") { $0.time(below: 0.99) },
        Field("waiting", about: "the most deliveries that waited") { $0.waiting },
        Field("oldest_seconds", label: "Oldest") { $0.oldest },
        Field(
            "held",
            about: "whether the circuit was not closed, no stream was bound, or commits waited for a standby"
        ) { $0.minutes > 0 ? $0.isHeld : nil as Bool? },
        Field("started", about: "the versions of the workers that started") { $0.started },
    ]
}
