import ConfigurationKeys
import Glibc
import UpstreamKit

struct PluginKind: HandlerKind {
    static let key = "plugin"

    var options = PluginHandler.Options()
    var host: String?

    init(_ scope: ConfigurationScope) {
        options.library = scope.required("path", .absolutePath)
            .means("Shared library with the functions of `upstream_plugin.h`.")
        options.configuration =
            scope.optional("configuration", .text, "none")
            .means("Text that the library is opened with; no secrets.") ?? ""
        options.processes = scope.value("processes", .number(1...64), default: "1")
            .means("Processes that run it side by side; `concurrency` is shared among them.")
        let memory = scope.optional("memory", .size(128 << 20...1 << 40), "no limit")
            .means("Address space that each of its processes may take.")
        options.memory = memory ?? 0
        host = scope.optional("host", .absolutePath, "beside the worker, or in `../libexec/upstream-worker` from there")
            .means("The program `upstream-plugin-host`.")
    }

    mutating func adapt(timeout: inout Duration) {
        options.timeout = timeout
        timeout = PluginHandler.attemptTimeout
    }

    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body {
        var options = options
        options.host = try PluginHost.find(configured: host)
        options.messages = common.concurrency
        return .handler(PluginHandler(name: common.name, options: options, logger: common.logger))
    }

    /// Loads the library, without opening the plugin, in the program that will load it: a crash is contained.
    func tryOut() async throws(HandlerProblem) {
        let host = try PluginHost.find(configured: host)
        if let problem = await PluginHost.problem(with: options.library, host: host) {
            throw HandlerProblem("plugin.path", problem)
        }
    }
}

extension ConfigurationType where Value == String {
    /// The absolute path of a readable file of any size.
    fileprivate static var absolutePath: Self {
        .path { path in
            guard path.hasPrefix("/") else { return "must be an absolute path, not '\(shown(path))'" }
            return access(path, R_OK) == 0 ? nil : "'\(path)' can't be read: \(String(cString: strerror(errno)))"
        }
    }
}
