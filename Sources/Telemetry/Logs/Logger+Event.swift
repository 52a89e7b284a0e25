package import Logging

extension Logger {
    /// Logs an event: constant text, a stable id, and typed fields, which are computed only if the level is logged.
    ///
    /// `info` is for operators; `debug` may run in production, `trace` may not.
    package func event(
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        _ fields: @autoclosure () -> LogFields = [:]
    ) {
        guard level >= logLevel else { return }
        let fields = fields()
        // Usually straight to the line: swift-log's own way makes a dictionary of strings.
        let each = CollectionOfOne(fields)
        if let lines = handler as? LineLogHandler, lines.write(level, event, message, each: each, { $0 }) { return }
        var metadata = Logger.Metadata(minimumCapacity: fields.values.count + 1)
        metadata[LogField.event.rawValue] = .string(event.rawValue)
        for (field, value) in fields.values {
            metadata[field.rawValue] = value.metadata
        }
        log(level: level, "\(message)", metadata: metadata, source: "upstream")
    }

    /// Logs an event for each of several things, as if one by one; `fields` must not log.
    package func event<Thing>(
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        each things: [Thing],
        _ fields: (Thing) -> LogFields
    ) {
        guard level >= logLevel else { return }
        if let lines = handler as? LineLogHandler, lines.write(level, event, message, each: things, fields) { return }
        for thing in things { self.event(level, event, message, fields(thing)) }
    }

    /// A field of every line that this logger writes.
    package subscript(field: LogField) -> LogValue? {
        get { self[metadataKey: field.rawValue].map { .string("\($0)") } }
        set { self[metadataKey: field.rawValue] = newValue?.metadata }
    }
}
