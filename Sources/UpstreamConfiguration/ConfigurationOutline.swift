package import ConfigurationKeys

/// The configuration's keys as a tree, for the JSON Schema and the commented file.
package final class ConfigurationOutline {
    package enum Content {
        case value(ConfigurationKey)
        case mapping
        case list
    }

    package let name: String
    /// The dotted path, with `N` for a list index.
    package let path: String
    package let content: Content
    /// The members of a mapping, or of each mapping in a list, in the order of the table.
    package private(set) var members: [ConfigurationOutline] = []
    /// The members of which exactly one is required; empty if none is.
    package private(set) var oneOf: [String] = []

    private init(name: String, path: String, _ content: Content) {
        (self.name, self.path, self.content) = (name, path, content)
    }

    package static var root: ConfigurationOutline {
        let root = ConfigurationOutline(name: "", path: "", .mapping)
        for declaration in ConfigurationLoader.declarations {
            switch declaration {
            case .key(let key): _ = root.place(key.path, .value(key))
            case .section(let section):
                let outline = root.place(section.path, section.isList ? .list : .mapping)
                if !section.oneOf.isEmpty { outline.oneOf = section.oneOf }
            }
        }
        return root
    }

    /// The outline at a path, made if missing.
    private func place(_ path: String, _ content: Content) -> ConfigurationOutline {
        var outline = self
        // All elements of a list have the same members, which are stored in the list.
        for part in path.split(separator: ".").map(String.init) where part != "N" {
            if let known = outline.members.first(where: { $0.name == part }) {
                outline = known
            } else {
                let made = ConfigurationOutline(name: part, path: path, content)
                outline.members.append(made)
                outline = made
            }
        }
        return outline
    }
}
