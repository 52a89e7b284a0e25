package import Logging

/// What libraries log by themselves, without what says nothing to an operator.
///
/// Their informational lines repeat ours. Of their errors those are left out that belong to every orderly end (a listener
/// that is closed already, a task that was cancelled) or to a client that went away; whatever else they report is shown.
package struct LibraryLogHandler: LogHandler {
    /// How the messages begin that have no consequence.
    private static let harmless = [
        "Server shutdown error: Already closed", "Waiting on child channel: CancellationError",
        "Waiting on child channel: Already closed", "Server channel error",
    ]

    private var base: any LogHandler

    /// A handler that passes on to another what deserves a look.
    package init(_ base: any LogHandler) { self.base = base }

    package var logLevel: Logger.Level {
        get { max(base.logLevel, .error) }
        set { base.logLevel = newValue }
    }

    package var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }

    package func log(event: LogEvent) {
        let message = event.message.description
        guard !Self.harmless.contains(where: { message.hasPrefix($0) }) else { return }
        base.log(event: event)
    }
}

extension Logger {
    /// A logger to hand to a library.
    package var forLibrary: Logger {
        Logger(label: label) { _ in LibraryLogHandler(handler) }
    }
}
