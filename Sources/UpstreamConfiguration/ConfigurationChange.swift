/// How a reloaded configuration differs from the running one.
package struct ConfigurationChange: Sendable, Equatable {
    /// The keys that take effect immediately, sorted.
    package var adopted: [String] = []
    /// The keys that take effect at the next start, sorted.
    package var awaiting: [String] = []

    fileprivate var values: [String: String?] = [:]

    /// Compares the running configuration with a newly read one.
    ///
    /// `log.level` and the retry settings of handlers, matched by name, take effect immediately. The contents of secret
    /// files are read whenever they are needed, and are not compared.
    package init(from old: ConfigurationLoader.Result, to new: ConfigurationLoader.Result) {
        let (before, after) = (Self.byName(old), Self.byName(new))
        var others: Set<String> = []
        for key in Set(before.keys).union(after.keys) where before[key]?.value != after[key]?.value {
            guard let path = after[key]?.path ?? before[key]?.path else { continue }
            // Keys of parts that this command doesn't read don't matter.
            guard old.configuration.console != nil || !path.hasPrefix("console.") else { continue }
            if let own = Self.adoptedPath(key, old.configuration, new.configuration) {
                adopted.append(path)
                values[own] = .some(after[key]?.value)
            } else if old.given[path] != new.given[path] {
                // Otherwise another handler has this index, with the same value.
                others.insert(path)
            }
        }
        adopted.sort()
        // `60s` for `1m`, or a default written out, is no difference.
        guard old.configuration.adopting(new.configuration) != new.configuration else { return }
        awaiting = others.sorted()
    }

    /// A key's identity: handlers' keys use the name instead of the index.
    private struct Key: Hashable {
        var handler: String?
        var path: String
    }

    private struct Given {
        var path: String
        var value: String
    }

    private static func byName(_ read: ConfigurationLoader.Result) -> [Key: Given] {
        var result: [Key: Given] = [:]
        for (path, value) in read.given {
            let parts = path.split(separator: ".", maxSplits: 2)
            var key = Key(path: path)
            if parts.count == 3, parts[0] == "handlers", let place = Int(parts[1]),
                read.configuration.handlers.indices.contains(place)
            {
                key = Key(handler: read.configuration.handlers[place].name, path: String(parts[2]))
            }
            result[key] = Given(path: path, value: value)
        }
        return result
    }

    /// The path that an adoptable key has in the running configuration; nil for other keys.
    private static func adoptedPath(
        _ key: Key,
        _ old: WorkerConfiguration,
        _ new: WorkerConfiguration
    ) -> String? {
        guard let handler = key.handler else { return key.path == "log.level" ? key.path : nil }
        guard key.path.hasPrefix("retry."), new.handlers.contains(where: { $0.name == handler }) else {
            return nil
        }
        return old.handlers.firstIndex { $0.name == handler }.map { "handlers.\($0).\(key.path)" }
    }
}

extension WorkerConfiguration {
    /// This configuration with those settings of another that take effect without a restart.
    package func adopting(_ other: WorkerConfiguration) -> WorkerConfiguration {
        var result = self
        result.logLevel = other.logLevel
        for place in result.handlers.indices {
            guard let handler = other.handlers.first(where: { $0.name == result.handlers[place].name }) else {
                continue
            }
            result.handlers[place].retry = handler.retry
        }
        return result
    }
}

extension ConfigurationLoader.Result {
    /// Takes over the adoptable settings of another configuration.
    package mutating func adopt(_ change: ConfigurationChange, of other: ConfigurationLoader.Result) {
        configuration = configuration.adopting(other.configuration)
        for (key, value) in change.values { given[key] = value }
    }
}
