package struct ConfigurationKey: Sendable, Equatable {
    /// The dotted path, with `N` for a list index.
    package var path: String
    package var type: String
    /// The default, `required`, or empty.
    package var defaultValue: String
    package var meaning: String
    package var shape: ValueShape = .text
    package var isList = false
    /// Whether it takes one value, or a list.
    package var takesList = false
    /// The default as a value; nil if it can't be written as one.
    package var defaultText: String?

    package var isRequired: Bool { defaultValue == "required" }

    package var standard: String {
        defaultValue.hasPrefix("required") ? "R" + defaultValue.dropFirst() + "." : "Default: \(defaultValue)."
    }

    package var environment: String {
        "UPSTREAM_" + path.split(separator: ".").joined(separator: "__").uppercased()
    }
}

/// The form of a key's values, for the JSON Schema.
package enum ValueShape: Sendable, Equatable {
    case text
    /// Text that may look like a number, such as a sender's id.
    case id
    case number(ClosedRange<Int>)
    case ratio
    case flag
    case words([String])
    case size
    case duration
}

/// A mapping of keys, or a list of such mappings.
package struct ConfigurationSection: Sendable, Equatable {
    /// The dotted path, with `N` for a list index, except of this list itself.
    package var path: String
    package var isList = false
    /// The sections of this mapping of which exactly one is required; empty if none is.
    package var oneOf: [String] = []
}

package enum ConfigurationDeclaration: Sendable {
    case key(ConfigurationKey)
    case section(ConfigurationSection)
}
