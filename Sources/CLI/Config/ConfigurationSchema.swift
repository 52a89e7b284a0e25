import ConfigurationKeys
import Resources
import UpstreamConfiguration

/// The configuration file's JSON Schema (draft 2020-12), for editors and other checkers.
///
/// Made from the same declarations as everything else. It knows a key's place, type and range, but no rules across
/// keys, which `check` does. It is stricter in one thing: numbers and flags must be unquoted.
enum ConfigurationSchema {
    static var object: JSONObject {
        let about = """
            The keys of config.yaml. `upstream-worker check` knows more rules than this, and looks at the files that are \
            named.
            """
        var schema: JSONObject = [
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "upstream-worker's configuration",
            "description": about,
        ]
        schema.add(mapping(.root, ["object"]))
        return schema
    }

    private static func mapping(_ outline: ConfigurationOutline, _ types: [String]) -> JSONObject {
        var schema: JSONObject = ["type": type(types), "additionalProperties": false]
        let required = outline.members.compactMap { member -> String? in
            guard case .value(let key) = member.content, key.isRequired else { return nil }
            return member.name
        }
        // A top-level section such as `database` may come from the environment.
        let isAtTop = if case .mapping = outline.content { !outline.path.contains(".") } else { false }
        if !isAtTop, !required.isEmpty { schema.add("required", required) }
        if !outline.oneOf.isEmpty { schema.add("oneOf", outline.oneOf.map { ["required": [$0]] as JSONObject }) }
        var properties: JSONObject = [:]
        for member in outline.members { properties.add(member.name, property(member)) }
        schema.add("properties", properties)
        return schema
    }

    private static func property(_ outline: ConfigurationOutline) -> JSONObject {
        switch outline.content {
        case .value(let key): value(key)
        // A section without keys, for example with all of them commented out, counts as absent.
        case .mapping: mapping(outline, ["object", "null"])
        case .list: ["type": ["array", "null"], "items": mapping(outline, ["object"])]
        }
    }

    private static func value(_ key: ConfigurationKey) -> JSONObject {
        let isPlain = key.defaultText != nil || key.isRequired || key.defaultValue.isEmpty
        var schema: JSONObject = ["description": key.meaning + (isPlain ? "" : " " + key.standard)]
        let list: JSONObject = ["type": "array", "items": shape(key.shape, isElement: true)]
        guard !key.isList else {
            schema.add(list)
            return schema
        }
        let one = shape(key.shape, isElement: false)
        schema.add(key.takesList ? ["anyOf": [one, list]] : one)
        if let text = key.defaultText { schema.add("default", standard(text, key.shape)) }
        return schema
    }

    private static func standard(_ text: String, _ shape: ValueShape) -> any ShownValue {
        switch shape {
        case .number: if let number = Int(text) { number } else { text }
        case .ratio: if let number = Double(text) { number } else { text }
        case .flag: text == "true"
        case .text, .id, .words, .size, .duration: text
        }
    }

    private static func shape(_ shape: ValueShape, isElement: Bool) -> JSONObject {
        switch shape {
        case .text: ["type": type(isElement ? ["string", "number"] : ["string"])]
        case .id: ["type": ["string", "integer"]]
        case .number(let range): ["type": "integer", "minimum": range.lowerBound, "maximum": range.upperBound]
        case .ratio: ["type": "number", "minimum": 0, "maximum": 1]
        case .flag: ["type": "boolean"]
        case .words(let words): ["enum": words]
        case .size: ["type": ["string", "integer"], "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$"]
        // Zero needs no unit.
        case .duration:
            ["type": ["string", "integer"], "pattern": "^(0|[0-9]+(ms|s|m|h|d))$", "minimum": 0, "maximum": 0]
        }
    }

    private static func type(_ types: [String]) -> any ShownValue {
        types.count == 1 ? types[0] : types as any ShownValue
    }
}
