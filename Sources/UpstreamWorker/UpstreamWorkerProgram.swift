import CLI
// One import suffices for a worker's source.
@_exported public import UpstreamKit

/// A worker with your own Swift handlers: an executable with every command of `upstream-worker`.
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
/// The handlers run beside the configured ones, in every worker started from this executable. Names are unique among
/// both.
public protocol UpstreamWorkerProgram: SendableMetatype {
    /// The handlers, made anew for each command that needs them: `run`, `dev` and `check`.
    ///
    /// Failing initialisation (opening a pool, reading a file) may throw: the command then ends with exit code 78 and
    /// the error's description, which must hold no secret.
    static var handlers: [HandlerRegistration] { get async throws }
}

extension UpstreamWorkerProgram {
    /// Runs the command line; `@main` calls it.
    ///
    /// A failing command ends the process with its exit code.
    public static func main() async {
        await WorkerProgram.main { try await Self.handlers }
    }
}
