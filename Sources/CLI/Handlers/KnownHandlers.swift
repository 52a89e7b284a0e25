import MessageStore
import Postgres
import Worker

/// Checks the handlers that people name.
enum KnownHandlers {
    /// Throws where no handler of this name is registered, with the name that was most likely meant.
    ///
    /// - Parameters:
    ///   - name: The name; nil is no name, and no error.
    ///   - connection: The database.
    /// - Throws: ``CommandFailure``, a negative answer; `PostgresError`.
    static func require(_ name: String?, _ connection: PostgresConnection) async throws {
        guard let name else { return }
        let known = try await HandlerStates(connection).list(counted: 1).map(\.name)
        guard !known.contains(name) else { return }
        throw CommandFailure.unknownHandler(name, among: known)
    }
}
