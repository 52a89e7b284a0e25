import Handlers
package import UpstreamConfiguration

/// Tries to load the libraries of all plugins, in the program that will load them, so that a crash is contained.
package enum PluginProbe {
    /// Loads each library, without opening the plugin.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` with every library that is no plugin, and why.
    package static func run(_ configuration: WorkerConfiguration) async throws(WorkerError) {
        var problems: [String] = []
        for (index, handler) in configuration.handlers.enumerated() {
            guard case .plugin(let plugin) = handler.kind else { continue }
            do throws(PluginHost.Missing) {
                let host = try PluginHost.find(configured: plugin.host)
                guard let problem = await PluginHost.problem(with: plugin.path, host: host) else { continue }
                problems.append("handlers.\(index).plugin.path: \(problem)")
            } catch {
                problems.append("handlers.\(index).plugin.host: \(error.message)")
            }
        }
        if !problems.isEmpty { throw .unusable(problems) }
    }
}
