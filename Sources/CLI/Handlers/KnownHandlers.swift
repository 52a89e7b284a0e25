import MessageStore
import Postgres

/// Checks handler names on the command line.
enum KnownHandlers {
    /// Throws if no handler of this name is registered, with a suggestion; nil passes.
    ///
    /// - Throws: ``CommandFailure``, a negative answer; `PostgresError`.
    static func require(_ name: String?, _ connection: PostgresConnection) async throws {
        guard let name else { return }
        let known = try await HandlerStates(connection).list(counted: 1).map(\.name)
        guard !known.contains(name) else { return }
        throw CommandFailure.unknownHandler(name, among: known)
    }
}
