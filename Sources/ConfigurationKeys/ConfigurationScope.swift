/// State shared by the scopes of one reading.
package final class ConfigurationReading {
    package let tree: ConfigurationTree
    /// Whether to list the keys instead of reading values: every section, list and kind is then entered once.
    let describes: Bool
    /// Resolves file names, and checks that files are readable.
    let files: ConfigurationFiles
    package var problems: [ConfigurationProblem]
    package var warnings: [ConfigurationProblem] = []
    /// The keys and sections in the order of reading, when they are listed.
    package var declarations: [ConfigurationDeclaration] = []
    private(set) var consumed: Set<String> = []
    /// The sections not read this time.
    var skipped: Set<String> = []
    /// The values read, defaults included.
    package private(set) var values: [EffectiveValue] = []

    package init(_ tree: ConfigurationTree, describes: Bool, files: ConfigurationFiles) {
        (self.tree, self.describes, self.files) = (tree, describes, files)
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

    func take(_ path: String) -> ConfigurationNode? {
        consumed.insert(path)
        return tree.nodes[path]
    }
}

/// A section of the configuration while it is read.
///
/// A key is declared where it is read, and nowhere else: with its type, default and meaning. The reference and the check
/// for unknown keys come from the same calls, run once without values.
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
        (self.reading, self.path, self.pattern) = (reading, path, pattern)
    }

    // MARK: Values

    package func value<Value>(
        _ name: String,
        _ type: ConfigurationType<Value>,
        default text: String
    ) -> ConfigurationEntry<Value> {
        entry(name, type, "`\(text)`", default: text) {
            parsed(join(path, name), type) ?? (try? type.parse(text)) ?? type.placeholder
        }
    }

    package func required<Value>(_ name: String, _ type: ConfigurationType<Value>) -> ConfigurationEntry<Value> {
        entry(name, type, "required") {
            if let value = parsed(join(path, name), type) { return value }
            if isMissing(name) { problem(name, "is required") }
            return type.placeholder
        }
    }

    /// An optional value; `note` is its default in the table.
    package func optional<Value>(
        _ name: String,
        _ type: ConfigurationType<Value>,
        _ note: String = ""
    ) -> ConfigurationEntry<Value?> {
        entry(name, type, note) { parsed(join(path, name), type) }
    }

    /// A list of values; nil if absent.
    package func list<Value>(
        _ name: String,
        of type: ConfigurationType<Value>,
        _ note: String
    ) -> ConfigurationEntry<[Value]?> {
        entry(name, type, note, isList: true) {
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
    }

    /// A list of values; empty if absent.
    package func values<Value>(
        _ name: String,
        of type: ConfigurationType<Value>,
        _ note: String
    ) -> ConfigurationEntry<[Value]> {
        list(name, of: type, note).map { $0 ?? [] }
    }

    /// One value, or a list of values in an order; the default if absent.
    package func oneOrMore<Value>(
        _ name: String,
        _ type: ConfigurationType<Value>,
        default text: String
    ) -> ConfigurationEntry<[Value]> {
        entry(name, type, "`\(text)`", takesList: true, default: text) {
            let key = join(path, name)
            if !reading.describes, case .list(let count)? = reading.take(key)?.content {
                if count == 0 { problem(name, "must not be an empty list") }
                return (0..<count).compactMap { parsed("\(key).\($0)", type) }
            }
            return [parsed(key, type) ?? (try? type.parse(text)) ?? type.placeholder]
        }
    }

    private func entry<Element, Value>(
        _ name: String,
        _ type: ConfigurationType<Element>,
        _ standard: String,
        isList: Bool = false,
        takesList: Bool = false,
        default text: String? = nil,
        _ read: @escaping () -> Value
    ) -> ConfigurationEntry<Value> {
        ConfigurationEntry { meaning in
            guard reading.describes else {
                reading.note(join(path, name), default: text, standard)
                return read()
            }
            let key = ConfigurationKey(
                path: join(pattern, name),
                type: isList ? "list of \(type.name)" : type.name + (takesList ? ", or a list" : ""),
                defaultValue: standard,
                meaning: meaning,
                shape: type.shape,
                isList: isList,
                takesList: takesList,
                defaultText: text
            )
            reading.declarations.append(.key(key))
            return read()
        }
    }

    // MARK: Sections

    /// An optional section, whose keys then have their defaults.
    package func section(_ name: String) -> ConfigurationScope {
        let key = join(path, name)
        declare(ConfigurationSection(path: join(pattern, name)))
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
        declare(ConfigurationSection(path: join(pattern, name), isList: true))
        let pattern = join(join(pattern, name), "N")
        guard !reading.describes else { return [ConfigurationScope(reading, path: "", pattern: pattern)] }
        guard let node = reading.take(key), node.content != .null else { return [] }
        guard case .list(let count) = node.content else {
            problem(name, "must be a list: begin each entry with '- '")
            return []
        }
        return (0..<count).map { index in
            let element = ConfigurationScope(reading, path: "\(key).\(index)", pattern: pattern)
            if reading.take(element.path)?.content != .map { element.problem("", "must be a mapping of keys") }
            return element
        }
    }

    /// Declares that exactly one of these sections is required; the reader reports violations.
    package func exactlyOne(of names: [String]) {
        declare(ConfigurationSection(path: pattern, oneOf: names))
    }

    private func declare(_ section: ConfigurationSection) {
        if reading.describes { reading.declarations.append(.section(section)) }
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

    package func problem(_ name: String, _ message: String) {
        guard !reading.describes else { return }
        reading.problems.append(made(name, message))
    }

    package func warning(_ name: String, _ message: String) {
        guard !reading.describes else { return }
        reading.warnings.append(made(name, message))
    }

    private func made(_ name: String, _ message: String) -> ConfigurationProblem {
        let key = join(path, name)
        let origin = reading.tree.nodes[key]?.origin ?? reading.tree.nodes[path]?.origin ?? .absent
        return ConfigurationProblem(origin: origin, key: key, message: message)
    }

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

/// A declared key without its meaning yet.
package struct ConfigurationEntry<Value> {
    fileprivate let read: (String) -> Value

    /// Reads the key, whose meaning stands in the reference.
    package func means(_ meaning: String) -> Value { read(meaning) }

    func map<Other>(_ change: @escaping (Value) -> Other) -> ConfigurationEntry<Other> {
        ConfigurationEntry<Other> { change(read($0)) }
    }
}
