import ConfigurationKeys

/// The configuration's keys as a tree, for the JSON Schema and the commented file.
final class ConfigurationOutline {
    enum Content {
        /// A value, or a list of values.
        case value(ConfigurationKey)
        case mapping
        case list
    }

    /// The last part of the path; empty for the root.
    let name: String
    /// The dotted path, with `N` for a list index.
    let path: String
    private(set) var content: Content
    /// The members of a mapping, or of each mapping in a list, in the order of the table.
    private(set) var members: [ConfigurationOutline] = []
    /// The members of which exactly one is required; empty if none is.
    private(set) var oneOf: [String] = []

    private init(name: String, path: String, _ content: Content) {
        (self.name, self.path, self.content) = (name, path, content)
    }

    /// Makes the tree of all keys.
    static func make(_ description: ConfigurationDescription) -> ConfigurationOutline {
        let root = ConfigurationOutline(name: "", path: "", .mapping)
        let lists = Set(description.sections.filter(\.isList).map(\.path))
        func place(_ path: String) -> ConfigurationOutline {
            var outline = root
            var read: [String] = []
            for part in path.split(separator: ".").map(String.init) {
                read.append(part)
                // All elements of a list have the same members, which are stored in the list.
                guard part != "N" else { continue }
                outline = outline.member(part, at: read.joined(separator: "."), lists)
            }
            return outline
        }
        for section in description.sections {
            let outline = place(section.path)
            if !section.oneOf.isEmpty { outline.oneOf = section.oneOf }
        }
        for key in description.keys { place(key.path).content = .value(key) }
        return root.sorted(description.keys.map(\.path))
    }

    private func member(_ name: String, at path: String, _ lists: Set<String>) -> ConfigurationOutline {
        if let known = members.first(where: { $0.name == name }) { return known }
        let made = ConfigurationOutline(name: name, path: path, lists.contains(path) ? .list : .mapping)
        members.append(made)
        return made
    }

    /// The same tree with members in the order of their keys.
    private func sorted(_ keys: [String]) -> ConfigurationOutline {
        var places: [String: Int] = [:]
        for (index, key) in keys.enumerated() {
            var path = ""
            for part in key.split(separator: ".") {
                path += path.isEmpty ? String(part) : "." + part
                places[path] = places[path] ?? index
            }
        }
        sort(by: places)
        return self
    }

    private func sort(by places: [String: Int]) {
        members = members.enumerated()
            .sorted { one, other in
                let (left, right) = (places[one.element.path] ?? .max, places[other.element.path] ?? .max)
                return (left, one.offset) < (right, other.offset)
            }
            .map(\.element)
        for member in members { member.sort(by: places) }
    }
}
