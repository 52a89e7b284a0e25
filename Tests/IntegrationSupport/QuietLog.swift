package import Logging

extension Logger {
    /// A logger whose lines nobody reads.
    package static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}
