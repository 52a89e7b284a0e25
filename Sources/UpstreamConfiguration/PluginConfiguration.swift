import ConfigurationKeys
import Glibc

/// A shared library that handles messages, in its own processes.
package struct PluginConfiguration: Sendable, Equatable {
    package var path: String
    /// The text it is opened with.
    package var configuration: String
    /// The number of processes that run it.
    package var processes: Int
    /// The address space that each process may use, in bytes; nil for no limit.
    package var memory: Int?
    /// The program that loads it; nil to find it next to the worker.
    package var host: String?

    init(_ scope: ConfigurationScope) {
        path = scope.required("path", .absolutePath, "Shared library with the functions of `upstream_plugin.h`.")
        configuration =
            scope.optional("configuration", .text, "none", "Text that the library is opened with; no secrets.") ?? ""
        processes = scope.value(
            "processes",
            .number(1...64),
            default: "1",
            "Processes that run it side by side; `concurrency` is shared among them."
        )
        memory = scope.optional(
            "memory",
            .size(128 << 20...1 << 40),
            "no limit",
            "Address space that each of its processes may take."
        )
        host = scope.optional(
            "host",
            .absolutePath,
            "beside the worker, or in `../libexec/upstream-worker` from there",
            "The program `upstream-plugin-host`."
        )
    }
}

extension ConfigurationType where Value == String {
    /// The absolute path of a readable file of any size.
    static var absolutePath: Self {
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
