import ConfigurationKeys
import Glibc
import UpstreamKit

struct PluginKind: HandlerKind {
    static let key = "plugin"

    var path: String
    var configuration: String
    var processes: Int
    var memory: Int?
    var host: String?
    private var timeout = Duration.zero

    init(_ scope: ConfigurationScope) {
        path = scope.required("path", .absolutePath).means("Shared library with the functions of `upstream_plugin.h`.")
        configuration =
            scope.optional("configuration", .text, "none")
            .means("Text that the library is opened with; no secrets.") ?? ""
        processes = scope.value("processes", .number(1...64), default: "1")
            .means("Processes that run it side by side; `concurrency` is shared among them.")
        memory = scope.optional("memory", .size(128 << 20...1 << 40), "no limit")
            .means("Address space that each of its processes may take.")
        host = scope.optional("host", .absolutePath, "beside the worker, or in `../libexec/upstream-worker` from there")
            .means("The program `upstream-plugin-host`.")
    }

    mutating func adapt(timeout: inout Duration) {
        self.timeout = timeout
        timeout = PluginHandler.attemptTimeout
    }

    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body {
        let options = PluginHandler.Options(
            host: try PluginHost.find(configured: host),
            library: path,
            configuration: configuration,
            processes: processes,
            memory: memory ?? 0,
            timeout: timeout,
            messages: common.concurrency
        )
        return .handler(PluginHandler(name: common.name, options: options, logger: common.logger))
    }

    /// Loads the library, without opening the plugin, in the program that will load it: a crash is contained.
    func tryOut() async throws(HandlerProblem) {
        let host = try PluginHost.find(configured: host)
        if let problem = await PluginHost.problem(with: path, host: host) {
            throw HandlerProblem("plugin.path", problem)
        }
    }
}

extension ConfigurationType where Value == String {
    /// The absolute path of a readable file of any size.
    fileprivate static var absolutePath: Self {
        .init(name: "file", placeholder: "") { text throws(ConfigurationTypeError) in
            let path = try ConfigurationType.text.parse(text)
            guard path.hasPrefix("/") else { throw .init(message: "must be an absolute path, not '\(shown(path))'") }
            guard access(path, R_OK) == 0 else {
                throw .init(message: "'\(path)' can't be read: \(String(cString: strerror(errno)))")
            }
            return path
        }
    }
}
