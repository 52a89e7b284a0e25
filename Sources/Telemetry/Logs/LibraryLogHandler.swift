package import Logging

/// Lets only those library messages pass that mean something to an operator.
///
/// Informational lines repeat ours; some errors come with every orderly shutdown, or with a client that went away.
package struct LibraryLogHandler: LogHandler {
    /// Prefixes of messages without consequences.
    private static let harmless = [
        "Server shutdown error: Already closed", "Waiting on child channel: CancellationError",
        "Waiting on child channel: Already closed", "Server channel error",
    ]

    private var base: any LogHandler

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
    package var forLibrary: Logger {
        Logger(label: label) { _ in LibraryLogHandler(handler) }
    }
}
