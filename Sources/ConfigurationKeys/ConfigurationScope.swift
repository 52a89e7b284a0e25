/// State shared by the scopes of one reading.
package final class ConfigurationReading {
    package let tree: ConfigurationTree
    /// Whether to list the keys instead of reading values: every section, list and kind is then entered once.
    let describes: Bool
    /// Resolves file names, and checks that files are readable.
    let files: ConfigurationFiles
    package var problems: [ConfigurationProblem]
    package var warnings: [ConfigurationProblem] = []
    package var keys: [ConfigurationKey] = []
    private(set) var consumed: Set<String> = []
    /// The sections not read this time.
    var skipped: Set<String> = []
    /// The sections, when keys are listed.
    package var sections: [ConfigurationSection] = []
    /// The values read, defaults included.
    package private(set) var values: [EffectiveValue] = []

    package init(_ tree: ConfigurationTree, describes: Bool, files: ConfigurationFiles) {
        self.tree = tree
        self.describes = describes
        self.files = files
        problems = tree.problems
    }

    /// Records a key's value: the given one, or else the default.
    func note(_ path: String, default text: String?, _ note: String) {
        guard let node = tree.nodes[path], node.content != .null else {
            values.append(EffectiveValue(key: path, value: text.map { .text($0) }, origin: .absent, note: note))
            return
        }
        let value: EffectiveValue.Value
        switch node.content {
        case .scalar(let text): value = .text(ConfigurationMask.shown(text, of: path))
        case .list(let count):
            value = .list(
                (0..<count).map { index in
                    guard case .scalar(let text) = tree.nodes["\(path).\(index)"]?.content else { return "…" }
                    return ConfigurationMask.shown(text, of: path)
                }
            )
        case .map, .null: value = .text("…")
        }
        values.append(EffectiveValue(key: path, value: value, origin: node.origin, note: note))
    }

    /// The node at a path; marks the path as read.
    func take(_ path: String) -> ConfigurationNode? {
        consumed.insert(path)
        return tree.nodes[path]
    }
}

/// A section of the configuration while it is read.
///
/// A key is declared where it is read, and nowhere else: type, default and meaning are arguments of the call. The
/// reference and the check for unknown keys come from the same calls, run once without values.
package struct ConfigurationScope {
    let reading: ConfigurationReading
    /// The dotted path, empty for the root.
    let path: String
    /// The path with `N` for list indexes.
    let pattern: String

    package init(_ reading: ConfigurationReading) {
        self.init(reading, path: "", pattern: "")
    }

    private init(_ reading: ConfigurationReading, path: String, pattern: String) {
        self.reading = reading
        self.path = path
        self.pattern = pattern
    }

    // MARK: Values

    /// A value with a default.
    package func value<Value>(
        _ name: String,
        _ type: ConfigurationType<Value>,
        default text: String,
        _ meaning: String
    ) -> Value {
        declare(name, type.name, "`\(text)`", meaning, type.shape, default: text)
        if let value = parsed(join(path, name), type) { return value }
        return (try? type.parse(text)) ?? type.placeholder
    }

    /// A required value.
    package func required<Value>(_ name: String, _ type: ConfigurationType<Value>, _ meaning: String) -> Value {
        declare(name, type.name, "required", meaning, type.shape)
        if let value = parsed(join(path, name), type) { return value }
        if isMissing(name) { problem(name, "is required") }
        return type.placeholder
    }

    /// An optional value; `note` is its default in the table.
    package func optional<Value>(
        _ name: String,
        _ type: ConfigurationType<Value>,
        _ note: String = "",
        _ meaning: String
    ) -> Value? {
        declare(name, type.name, note, meaning, type.shape)
        return parsed(join(path, name), type)
    }

    /// A list of values; nil if absent.
    package func list<Value>(
        _ name: String,
        of type: ConfigurationType<Value>,
        _ note: String,
        _ meaning: String
    ) -> [Value]? {
        declare(name, "list of \(type.name)", note, meaning, type.shape, isList: true)
        let key = join(path, name)
        guard !reading.describes, let node = reading.take(key) else { return nil }
        switch node.content {
        case .list(let count): return (0..<count).compactMap { parsed("\(key).\($0)", type) }
        case .null: return nil
        case .map, .scalar:
            problem(name, "must be a list, such as [\"…\"]")
            return nil
        }
    }

    // MARK: Sections

    /// An optional section, whose keys then have their defaults.
    package func section(_ name: String) -> ConfigurationScope {
        let key = join(path, name)
        if reading.describes {
            reading.sections.append(ConfigurationSection(path: join(pattern, name), isList: false))
        }
        if let node = reading.take(key), node.content != .map, node.content != .null {
            problem(name, "must be a mapping of keys")
        }
        return ConfigurationScope(reading, path: key, pattern: join(pattern, name))
    }

    /// Whether the section is written; always true when keys are listed.
    package func has(_ name: String) -> Bool {
        reading.describes || reading.tree.nodes[join(path, name)] != nil
    }

    /// The sections of a list; one when keys are listed.
    package func sections(_ name: String) -> [ConfigurationScope] {
        let key = join(path, name)
        let pattern = join(join(pattern, name), "N")
        if reading.describes {
            reading.sections.append(ConfigurationSection(path: join(self.pattern, name), isList: true))
        }
        guard !reading.describes else { return [ConfigurationScope(reading, path: "", pattern: pattern)] }
        guard let node = reading.take(key), node.content != .null else { return [] }
        guard case .list(let count) = node.content else {
            problem(name, "must be a list: begin each entry with '- '")
            return []
        }
        return (0..<count).map { index in
            let element = ConfigurationScope(reading, path: "\(key).\(index)", pattern: pattern)
            if reading.take(element.path)?.content != .map {
                reading.problems.append(
                    .init(
                        origin: reading.tree.nodes[element.path]?.origin ?? .absent,
                        key: element.path,
                        message: "must be a mapping of keys"
                    )
                )
            }
            return element
        }
    }

    /// Declares that exactly one of these sections is required; the reader reports violations.
    package func exactlyOne(of names: [String]) {
        guard reading.describes else { return }
        reading.sections.append(ConfigurationSection(path: pattern, isList: false, oneOf: names))
    }

    /// Leaves a section or list unread: only the names of its keys are checked.
    package func skipped(_ name: String) -> [ConfigurationScope] {
        let key = join(path, name)
        _ = reading.take(key)
        reading.skipped.insert(key)
        return []
    }

    /// The text of a key, by its full path, that another part reads and checks; nil if absent.
    package func text(ofAnother key: String) -> String? {
        guard case .scalar(let text)? = reading.tree.nodes[key]?.content else { return nil }
        return text
    }

    /// Reports an error about a key's value.
    package func problem(_ name: String, _ message: String) {
        guard !reading.describes else { return }
        reading.problems.append(made(name, message))
    }

    /// Reports a warning about a key's value.
    package func warning(_ name: String, _ message: String) {
        guard !reading.describes else { return }
        reading.warnings.append(made(name, message))
    }

    private func made(_ name: String, _ message: String) -> ConfigurationProblem {
        let key = join(path, name)
        let origin = reading.tree.nodes[key]?.origin ?? reading.tree.nodes[path]?.origin ?? .absent
        return ConfigurationProblem(origin: origin, key: key, message: message)
    }

    private func declare(
        _ name: String,
        _ type: String,
        _ defaultValue: String,
        _ meaning: String,
        _ shape: ValueShape,
        isList: Bool = false,
        default text: String? = nil
    ) {
        guard reading.describes else { return reading.note(join(path, name), default: text, defaultValue) }
        reading.keys.append(
            ConfigurationKey(
                path: join(pattern, name),
                type: type,
                defaultValue: defaultValue,
                meaning: meaning,
                shape: shape,
                isList: isList,
                defaultText: text
            )
        )
    }

    /// Whether a key is absent or null.
    package func isMissing(_ name: String) -> Bool {
        guard !reading.describes else { return false }
        guard let node = reading.tree.nodes[join(path, name)] else { return true }
        return node.content == .null
    }

    private func parsed<Value>(_ key: String, _ type: ConfigurationType<Value>) -> Value? {
        guard !reading.describes, let node = reading.take(key) else { return nil }
        // Files' contents are not needed if files are not checked.
        guard reading.files.areChecked || type.name != "file" else { return nil }
        func refuse(_ message: String) -> Value? {
            reading.problems.append(ConfigurationProblem(origin: node.origin, key: key, message: message))
            return nil
        }
        switch node.content {
        case .null: return nil
        case .list: return refuse("must be one value, not a list")
        case .map: return refuse("must be one value, not a mapping")
        case .scalar(let text):
            do throws(ConfigurationTypeError) {
                return try type.parse(text)
            } catch {
                return refuse(error.message)
            }
        }
    }

    private func join(_ parent: String, _ name: String) -> String {
        parent.isEmpty || name.isEmpty ? parent + name : "\(parent).\(name)"
    }
}
