import Yams

struct ConfigurationNode {
    enum Content: Equatable {
        case scalar(String)
        case null
        case list(count: Int)
        case map
    }

    var content: Content
    var origin: ConfigurationOrigin
}

/// All nodes by dotted path (`senders.0.host`), with file, environment and flags merged.
package struct ConfigurationTree {
    private static let depthLimit = 12
    static let listLimit = 1000

    private(set) var nodes: [String: ConfigurationNode] = [:]
    package private(set) var problems: [ConfigurationProblem] = []
    /// Whether the document is YAML; if not, ``problems`` holds only the reason.
    package private(set) var isReadable = true

    package init() {}

    package var given: [String: String] {
        nodes.compactMapValues { node in
            guard case .scalar(let text) = node.content else { return nil }
            return text
        }
    }

    /// Merges a YAML document; `path` is the file's name in problems.
    package mutating func merge(yaml: String, path: String) {
        do {
            // Anchors are known only while the parser lives.
            let parser = try Parser(yaml: yaml)
            try withExtendedLifetime(parser) {
                guard let root = try parser.singleRoot() else { return }
                guard case .mapping = root else {
                    if !Self.isNull(root) {
                        problem(root, path, "", "must be a mapping of sections, such as 'database:'")
                    }
                    return
                }
                add(root, at: [], path: path)
            }
        } catch let error as YamlError {
            isReadable = false
            problems = [Self.problem(error, path)]
        } catch {
            isReadable = false
            problems = [
                .init(origin: .file(path, line: 1, column: 1), key: "", message: "is not YAML that can be read")
            ]
        }
    }

    /// Sets a value over an existing one, as an environment variable or a flag does.
    package mutating func override(_ path: String, _ value: String, origin: ConfigurationOrigin) {
        let parts = path.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        for depth in 1..<max(parts.count, 1) {
            let parent = parts[..<depth].joined(separator: ".")
            let index = Int(parts[depth])
            switch (nodes[parent]?.content, index) {
            case (.list(let count), let index?) where index == count && index < Self.listLimit:
                nodes[parent]?.content = .list(count: count + 1)
            case (.list, _), (.map, _): break
            case (_, 0?): nodes[parent] = ConfigurationNode(content: .list(count: 1), origin: origin)
            case (_, nil): nodes[parent] = ConfigurationNode(content: .map, origin: origin)
            default: break
            }
        }
        nodes[path] = ConfigurationNode(content: .scalar(value), origin: origin)
    }

    private mutating func add(_ node: Node, at parts: [String], path: String) {
        let key = parts.joined(separator: ".")
        let origin = Self.origin(node, path)
        guard node.anchor == nil else {
            problem(node, path, key, "uses a YAML anchor; anchors and aliases are not supported: write the value out")
            return
        }
        guard parts.count <= Self.depthLimit else {
            problem(node, path, key, "is nested too deeply")
            return
        }
        switch node {
        case .scalar(let scalar):
            let content: ConfigurationNode.Content = Self.isNull(node) ? .null : .scalar(scalar.string)
            nodes[key] = ConfigurationNode(content: content, origin: origin)
        case .sequence(let elements):
            guard elements.count <= Self.listLimit else {
                problem(node, path, key, "has more than \(Self.listLimit) elements")
                return
            }
            nodes[key] = ConfigurationNode(content: .list(count: elements.count), origin: origin)
            for (index, element) in elements.enumerated() { add(element, at: parts + [String(index)], path: path) }
        case .mapping(let members):
            nodes[key] = ConfigurationNode(content: .map, origin: origin)
            for (name, value) in members { add(member: name, value, at: parts, path: path) }
        case .alias:
            problem(node, path, key, "uses a YAML alias; anchors and aliases are not supported: write the value out")
        }
    }

    private mutating func add(member name: Node, _ value: Node, at parts: [String], path: String) {
        let key = parts.joined(separator: ".")
        guard case .scalar(let scalar) = name, !scalar.string.isEmpty, !scalar.string.contains(".") else {
            problem(name, path, key, "has a key that is not a plain name")
            return
        }
        add(value, at: parts + [scalar.string], path: path)
        // Problems name the line of the key, not that of its value.
        let member = (parts + [scalar.string]).joined(separator: ".")
        nodes[member]?.origin = Self.origin(name, path)
    }

    private mutating func problem(_ node: Node, _ path: String, _ key: String, _ message: String) {
        problems.append(ConfigurationProblem(origin: Self.origin(node, path), key: key, message: message))
    }

    private static func origin(_ node: Node, _ path: String) -> ConfigurationOrigin {
        .file(path, line: node.mark?.line ?? 1, column: node.mark?.column ?? 1)
    }

    /// YAML 1.2's null: nothing, `~` or `null`, unquoted.
    private static func isNull(_ node: Node) -> Bool {
        guard case .scalar(let scalar) = node, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }

    private static func problem(_ error: YamlError, _ path: String) -> ConfigurationProblem {
        func made(_ line: Int, _ column: Int, _ message: String) -> ConfigurationProblem {
            ConfigurationProblem(origin: .file(path, line: line, column: column), key: "", message: message)
        }
        return switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            made(mark.line, mark.column, "is not YAML: \(problem)")
        case .duplicatedKeysInMapping(let keys, let context):
            made(
                context.mark.line,
                context.mark.column,
                "the mapping that begins here holds a key twice: \(keys.sorted().joined(separator: ", "))"
            )
        case .reader(let problem, _, _, _): made(1, 1, "is not YAML: \(problem)")
        default: made(1, 1, "is not YAML that can be read")
        }
    }
}
