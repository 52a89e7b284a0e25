package import ConfigurationKeys
package import Logging
package import Postgres
package import Probing
package import Telemetry
package import UpstreamKit

/// A kind of handler: its section of the configuration, and all that the worker does with it.
///
/// A new kind is a type in a folder of its own, listed in ``HandlerKinds``. Only ``key``, `init(_:)` and ``body(_:)`` are
/// required.
package protocol HandlerKind: Sendable, Equatable {
    /// The name of its section: `webhook`.
    static var key: String { get }
    /// Whether each message at once takes a session of the database.
    static var takesSessions: Bool { get }

    init(_ scope: ConfigurationScope)

    /// Adapts the handler's longest time for one attempt to its own settings.
    mutating func adapt(timeout: inout Duration)

    /// Makes the handler, and looks into the files it needs.
    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body

    /// Tries, in `check`, what could bring the worker down at its start.
    func tryOut() async throws(HandlerProblem)

    /// The steps of `check --connect`: what it calls exists and may be called; nothing is called.
    func probes(_ session: any HandlerProbeSession) -> [Probe]

    /// Passes on the certificates it meets, with the seconds until they expire.
    func certificates(_ note: (CertificateKind, Int) -> Void) async
}

extension HandlerKind {
    package static var takesSessions: Bool { false }
    package func adapt(timeout: inout Duration) {}
    package func tryOut() async throws(HandlerProblem) {}
    package func probes(_ session: any HandlerProbeSession) -> [Probe] { [] }
    package func certificates(_ note: (CertificateKind, Int) -> Void) async {}

    fileprivate func equals(_ other: any HandlerKind) -> Bool { self == other as? Self }
}

/// A handler's kind, comparable with that of another.
@propertyWrapper
package struct AnyHandlerKind: Sendable, Equatable {
    package var wrappedValue: any HandlerKind

    package init(wrappedValue: any HandlerKind) { self.wrappedValue = wrappedValue }

    package static func == (one: Self, other: Self) -> Bool { one.wrappedValue.equals(other.wrappedValue) }
}

package struct HandlerCommon: Sendable {
    package var name: String
    package var concurrency: Int
    package var logger: Logger
    /// The logger of handlers that log every message.
    package var gathered: Logger

    package init(name: String, concurrency: Int, logger: Logger, gathered: Logger) {
        (self.name, self.concurrency, self.logger, self.gathered) = (name, concurrency, logger, gathered)
    }
}

/// Why a configured handler can't be used.
package struct HandlerProblem: Error, Sendable {
    private let key: String
    let message: String

    /// A problem with a key below the handler's: `webhook.url`.
    init(_ key: String, _ message: String) {
        (self.key, self.message) = (key, message)
    }

    /// What is wrong with the handler at this place in the list.
    package func text(at index: Int) -> String { "handlers.\(index).\(key): \(message)" }
}

/// The session of `check --connect`, for steps about handlers.
package protocol HandlerProbeSession: Sendable {
    /// Lends the session and names its role; skipped without one, or if the schema differs; reports `body`'s error.
    func forHandler(
        _ body: @Sendable (PostgresConnection, _ role: String) async throws(PostgresError) -> Probe.Result
    ) async -> Probe.Result
}
