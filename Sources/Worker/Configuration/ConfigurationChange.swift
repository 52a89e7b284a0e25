/// What a configuration that was read again has that the running one has not.
package struct ConfigurationChange: Sendable, Equatable {
    /// The keys that take effect at once, sorted.
    package var adopted: [String] = []
    /// The keys that take effect with the next start, sorted.
    package var awaiting: [String] = []

    /// What the keys of the running configuration become that are adopted.
    fileprivate var values: [String: String?] = [:]

    /// What differs.
    ///
    /// At once take effect `log.level`, and the retry settings of a handler, which is known by its name, wherever it stands. What
    /// secret files hold is read whenever it is needed, and no part of this.
    ///
    /// - Parameters:
    ///   - old: What runs.
    ///   - new: What was read.
    package init(from old: ConfigurationLoader.Result, to new: ConfigurationLoader.Result) {
        let (before, after) = (Self.byName(old), Self.byName(new))
        var others: Set<String> = []
        for key in Set(before.keys).union(after.keys) where before[key]?.value != after[key]?.value {
            guard let path = after[key]?.path ?? before[key]?.path else { continue }
            // Keys of parts that this command doesn't read are not its concern.
            guard old.configuration.console != nil || !path.hasPrefix("console.") else { continue }
            if let own = Self.adoptedPath(key, old.configuration, new.configuration) {
                adopted.append(path)
                values[own] = .some(after[key]?.value)
            } else if old.given[path] != new.given[path] {
                // Otherwise another handler stands there, which is the same in this.
                others.insert(path)
            }
        }
        adopted.sort()
        // `60s` for `1m`, or a default written out, is no difference.
        guard old.configuration.adopting(new.configuration) != new.configuration else { return }
        awaiting = others.sorted()
    }

    /// What tells one key from all others: a handler's keys have its name instead of its place.
    private struct Key: Hashable {
        var handler: String?
        var path: String
    }

    /// A value that was given.
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

    /// The path that a key which takes effect at once has in the running configuration; nil for other keys.
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
    /// This configuration with what of another takes effect without a restart.
    package func adopting(_ other: WorkerConfiguration) -> WorkerConfiguration {
        var result = self
        result.logLevel = other.logLevel
        for place in result.handlers.indices {
            guard let handler = other.handlers.first(where: { $0.name == result.handlers[place].name }) else {
                continue
            }
            result.handlers[place].maximumAttempts = handler.maximumAttempts
            result.handlers[place].initialDelay = handler.initialDelay
            result.handlers[place].maximumDelay = handler.maximumDelay
        }
        return result
    }
}

extension ConfigurationLoader.Result {
    /// What runs once this one's process has taken what it can of another.
    mutating func adopt(_ change: ConfigurationChange, of other: ConfigurationLoader.Result) {
        configuration = configuration.adopting(other.configuration)
        for (key, value) in change.values { given[key] = value }
    }
}
