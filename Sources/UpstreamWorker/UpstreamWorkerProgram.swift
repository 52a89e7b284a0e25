import CLI
// One import is all that a worker's source needs.
@_exported public import UpstreamKit

/// A worker with Swift handlers of your own: an executable with every command of `upstream-worker`.
///
/// ```swift
/// import UpstreamWorker
///
/// @main
/// struct OrdersWorker: UpstreamWorkerProgram {
///     static let handlers = [
///         HandlerRegistration("orders", categories: ["com.example.orders"], handler: TakeOrder())
///     ]
/// }
/// ```
///
/// The handlers run beside those of the configuration, in every worker that is started from this executable. Their
/// names are unique among both.
public protocol UpstreamWorkerProgram: SendableMetatype {
    /// The handlers, made anew for each command that needs them: `run`, `dev` and `check`.
    ///
    /// What can fail (a pool that is opened, a file that is read) may throw: the command then ends with exit code 78 and
    /// the error's description, which must hold no secret.
    static var handlers: [HandlerRegistration] { get async throws }
}

extension UpstreamWorkerProgram {
    /// Does what the command line says.
    ///
    /// `@main` calls it. A command that fails ends the process with its exit code.
    public static func main() async {
        await WorkerProgram.main { try await Self.handlers }
    }
}
