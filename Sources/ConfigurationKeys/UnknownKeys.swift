import Foundation
import Vocabulary

/// Finds unknown keys, and suggests the intended ones.
package struct UnknownKeys {
    private let reading: ConfigurationReading
    private let known: [ConfigurationKey]

    package init(_ reading: ConfigurationReading, known: [ConfigurationKey]) {
        (self.reading, self.known) = (reading, known)
    }

    /// One problem per unknown key; an unknown section is reported once, without its keys.
    package var problems: [ConfigurationProblem] {
        let left = reading.tree.nodes.filter { path, node in
            !path.isEmpty && !reading.consumed.contains(path) && !isKnownAndSkipped(path, node)
        }
        return left.keys.sorted()
            .filter { !isBelowAnother($0, left) }
            .compactMap { path in
                guard let node = left[path] else { return nil }
                return ConfigurationProblem(origin: node.origin, key: path, message: message(path, node.origin))
            }
    }

    /// Whether a path lies in an unread section, and is a key, a section or a list element there.
    ///
    /// A mapping is judged by its keys: one without any, such as `log: {}`, is in no table.
    private func isKnownAndSkipped(_ path: String, _ node: ConfigurationNode) -> Bool {
        guard reading.skipped.contains(where: { path.hasPrefix($0 + ".") }) else { return false }
        if node.content == .map { return true }
        let pattern = Self.pattern(path)
        let list = pattern.hasSuffix(".N") ? String(pattern.dropLast(2)) : pattern
        return known.contains { $0.path == pattern || $0.path == list || $0.path.hasPrefix(pattern + ".") }
    }

    /// Whether a section above was already reported: as unknown, or as taking one value.
    private func isBelowAnother(_ path: String, _ left: [String: ConfigurationNode]) -> Bool {
        let parts = path.split(separator: ".")
        return (1..<max(parts.count, 1)).contains { depth in
            let parent = parts[..<depth].joined(separator: ".")
            return left[parent] != nil || known.contains { $0.path == Self.pattern(parent) }
        }
    }

    private func message(_ path: String, _ origin: ConfigurationOrigin) -> String {
        // The name is right, but the list has no such element: a suggestion would repeat it.
        if let list = listThatEnds(before: path) { return list }
        if case .environment(let name) = origin {
            let names = known.map { Self.concrete($0.environment, like: name) }.filter { $0 != name }
            let nearest = Suggestion.nearest(to: name, among: names)
            return "unknown variable" + (nearest.map { "; did you mean \($0)?" } ?? "")
        }
        let parent = Self.pattern(path).split(separator: ".").dropLast().joined(separator: ".")
        let name = path.split(separator: ".").last.map(String.init) ?? path
        let siblings = known.compactMap { Self.child($0.path, of: parent) }.filter { $0 != name }
        if let nearest = Suggestion.nearest(to: name, among: Array(Set(siblings))) {
            return "unknown key; did you mean '\(nearest)'?"
        }
        // The name is right, but not the place.
        if let elsewhere = known.first(where: { $0.path.split(separator: ".").last.map(String.init) == name }) {
            return "unknown key here; did you mean '\(elsewhere.path)'?"
        }
        return "unknown key; known keys here: \(Set(siblings).sorted().joined(separator: ", "))"
    }

    /// The problem of a known key at an index beyond its list; nil for other keys.
    private func listThatEnds(before path: String) -> String? {
        let pattern = Self.pattern(path)
        guard known.contains(where: { $0.path == pattern || $0.path.hasPrefix(pattern + ".") }) else { return nil }
        let parts = path.split(separator: ".").map(String.init)
        for (depth, part) in parts.enumerated() where depth > 0 {
            guard let place = Int(part) else { continue }
            let list = parts[..<depth].joined(separator: ".")
            let count = if case .list(let count) = reading.tree.nodes[list]?.content { count } else { 0 }
            guard place >= count else { continue }
            return
                "belongs to element \(place) of the list '\(list)', which has \(count): elements are numbered from 0, "
                + "without gaps"
        }
        return nil
    }

    private static func pattern(_ path: String) -> String {
        path.split(separator: ".").map { Int($0) == nil ? String($0) : "N" }.joined(separator: ".")
    }

    /// The next component of a known path below a section.
    private static func child(_ path: String, of parent: String) -> String? {
        guard parent.isEmpty || path.hasPrefix(parent + ".") else { return nil }
        let rest = parent.isEmpty ? path[...] : path.dropFirst(parent.count + 1)
        return rest.split(separator: ".").first.map(String.init)
    }

    /// A variable's pattern with the numbers of the name it is compared with.
    private static func concrete(_ environment: String, like name: String) -> String {
        let numbers = name.components(separatedBy: "__").filter { Int($0) != nil }
        var next = numbers.makeIterator()
        return environment.components(separatedBy: "__").map { $0 == "N" ? next.next() ?? "0" : $0 }
            .joined(separator: "__")
    }
}
