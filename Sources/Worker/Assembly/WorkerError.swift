package import MessageStore

/// Why a worker can't run, or could not shut down gracefully.
package enum WorkerError: Error, Sendable, CustomStringConvertible {
    /// Things named by the configuration that can't be used; one entry each.
    case unusable([String])
    /// No migration can fix the schema.
    case schema(SchemaState)
    /// The admin address is taken, or a library failed.
    case failed(String)

    package var description: String {
        switch self {
        case .unusable(let problems): problems.joined(separator: "\n")
        case .schema(let state):
            (state.problem ?? "the schema is not this binary's") + "; `upstream-worker migrate status` shows more"
        case .failed(let text): text
        }
    }
}
