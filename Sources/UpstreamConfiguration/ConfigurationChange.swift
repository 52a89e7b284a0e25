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

    /// The given values by identity: of handlers' keys the handler's name and the rest, of others the path.
    private static func byName(_ read: ConfigurationLoader.Result) -> [[String]: (path: String, value: String)] {
        var result: [[String]: (path: String, value: String)] = [:]
        let handlers = read.configuration.handlers
        for (path, value) in read.given {
            let parts = path.split(separator: ".", maxSplits: 2).map(String.init)
            let place = parts.count == 3 && parts[0] == "handlers" ? Int(parts[1]) : nil
            let name = place.flatMap { handlers.indices.contains($0) ? handlers[$0].name : nil }
            result[name.map { [$0, parts[2]] } ?? [path]] = (path, value)
        }
        return result
    }

    /// The path that an adoptable key has in the running configuration; nil for other keys.
    private static func adoptedPath(
        _ key: [String],
        _ old: WorkerConfiguration,
        _ new: WorkerConfiguration
    ) -> String? {
        guard key.count == 2 else { return key == ["log.level"] ? key[0] : nil }
        guard key[1].hasPrefix("retry."), new.handlers.contains(where: { $0.name == key[0] }) else { return nil }
        return old.handlers.firstIndex { $0.name == key[0] }.map { "handlers.\($0).\(key[1])" }
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
