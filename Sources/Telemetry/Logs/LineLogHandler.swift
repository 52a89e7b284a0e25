package import Logging
import Vocabulary

/// Writes log events as lines: JSON for programs, text for people.
package struct LineLogHandler: LogHandler {
    package var logLevel: Logger.Level {
        get { own ?? threshold.level }
        set { own = newValue }
    }
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    /// The level shared by all loggers of the process.
    private let threshold: LogThreshold
    /// This logger's own level, if set.
    private var own: Logger.Level?
    private let label: String
    private let format: LogFormat
    private(set) var output: any LogOutput

    /// A handler with a threshold of its own.
    package init(
        label: String,
        level: Logger.Level,
        format: LogFormat,
        output: any LogOutput = DescriptorLogOutput.standardError
    ) {
        self.init(label: label, threshold: LogThreshold(level), format: format, output: output)
    }

    /// A handler that shares its level; the label is shown in lines that libraries log.
    package init(
        label: String,
        threshold: LogThreshold,
        format: LogFormat,
        output: any LogOutput = DescriptorLogOutput.standardError
    ) {
        self.label = label
        self.threshold = threshold
        self.format = format
        self.output = output
        output.show(in: format)
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        // Usually there are only the event's own fields, and nothing to merge.
        var fields = event.metadata ?? [:]
        if let provided = metadataProvider?.get() { fields.merge(provided) { own, _ in own } }
        if !metadata.isEmpty { fields.merge(metadata) { own, _ in own } }
        if let error = event.error { fields[LogField.error.rawValue] = .string("\(error)") }
        if fields[LogField.event.rawValue] == nil {
            fields[LogField.event.rawValue] = .string(EventName.library.rawValue)
            fields[LogField.source.rawValue] = .string(label)
        }
        let line = LogLine(time: .now, level: event.level, message: event.message.description, fields: fields)
        output.append { $0.append(line: line.bytes(in: format)) }
    }

    /// Writes one of our events for each of several things, in consecutive lines; false if it needs the general way: this
    /// logger adds fields or writes text for people.
    func write<Things: Sequence>(
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        each things: Things,
        _ fields: (Things.Element) -> LogFields
    ) -> Bool {
        guard format == .json, metadata.isEmpty, metadataProvider == nil else { return false }
        let now = Timestamp.now
        output.append { lines in
            for thing in things { lines.append(now, level, event, message, fields(thing)) }
        }
        return true
    }

    func writing(to output: any LogOutput) -> LineLogHandler {
        var other = self
        other.output = output
        return other
    }
}
