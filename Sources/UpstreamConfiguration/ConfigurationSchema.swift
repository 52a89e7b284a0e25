import ConfigurationKeys
import Vocabulary

/// The configuration file's JSON Schema (draft 2020-12), for editors and other checkers.
///
/// Made from the same declarations as everything else. It knows a key's place, type and range, but no rules across
/// keys, which `check` does. It is stricter in one thing: numbers and flags must be unquoted.
package enum ConfigurationSchema {
    package static var json: [UInt8] {
        var json = JSONWriter(capacity: 1 << 16)
        json.beginObject()
        json.member("$schema", "https://json-schema.org/draft/2020-12/schema")
        json.member("title", "upstream-worker's configuration")
        json.member(
            "description",
            "The keys of config.yaml. `upstream-worker check` knows more rules than this, and looks at the files that are named."
        )
        mapping(ConfigurationOutline.make(ConfigurationLoader.declarations), types: ["object"], to: &json)
        json.endObject()
        return json.finish()
    }

    private static func mapping(_ outline: ConfigurationOutline, types: [String], to json: inout JSONWriter) {
        type(types, to: &json)
        json.name("additionalProperties")
        json.bool(false)
        let required = outline.members.compactMap { member -> String? in
            guard case .value(let key) = member.content, key.isRequired else { return nil }
            return member.name
        }
        // A top-level section such as `database` may come from the environment.
        let isAtTop = if case .mapping = outline.content { !outline.path.contains(".") } else { false }
        if !isAtTop, !required.isEmpty { names("required", required, to: &json) }
        if !outline.oneOf.isEmpty {
            json.name("oneOf")
            json.beginArray()
            for name in outline.oneOf {
                json.beginObject()
                names("required", [name], to: &json)
                json.endObject()
            }
            json.endArray()
        }
        json.name("properties")
        json.beginObject()
        for member in outline.members {
            json.name(escaping: member.name)
            json.beginObject()
            switch member.content {
            case .value(let key): value(key, to: &json)
            // A section without keys, for example with all of them commented out, counts as absent.
            case .mapping: mapping(member, types: ["object", "null"], to: &json)
            case .list:
                type(["array", "null"], to: &json)
                json.name("items")
                json.beginObject()
                mapping(member, types: ["object"], to: &json)
                json.endObject()
            }
            json.endObject()
        }
        json.endObject()
    }

    private static func value(_ key: ConfigurationKey, to json: inout JSONWriter) {
        let isPlain = key.defaultText != nil || key.isRequired || key.defaultValue.isEmpty
        json.member("description", key.meaning + (isPlain ? "" : " " + key.standard))
        if key.isList {
            list(key.shape, to: &json)
        } else {
            if key.takesList {
                json.name("anyOf")
                json.beginArray()
                json.beginObject()
                shape(key.shape, isElement: false, to: &json)
                json.endObject()
                json.beginObject()
                list(key.shape, to: &json)
                json.endObject()
                json.endArray()
            } else {
                shape(key.shape, isElement: false, to: &json)
            }
            if let text = key.defaultText { standard(text, key.shape, to: &json) }
        }
    }

    private static func list(_ elements: ValueShape, to json: inout JSONWriter) {
        type(["array"], to: &json)
        json.name("items")
        json.beginObject()
        shape(elements, isElement: true, to: &json)
        json.endObject()
    }

    private static func standard(_ text: String, _ shape: ValueShape, to json: inout JSONWriter) {
        json.name("default")
        switch shape {
        case .number: if let number = Int(text) { json.integer(number) } else { json.string(text) }
        case .ratio: if let number = Double(text) { json.number(number) } else { json.string(text) }
        case .flag: json.bool(text == "true")
        case .text, .id, .words, .size, .duration: json.string(text)
        }
    }

    private static func shape(_ shape: ValueShape, isElement: Bool, to json: inout JSONWriter) {
        switch shape {
        case .text: type(isElement ? ["string", "number"] : ["string"], to: &json)
        case .id: type(["string", "integer"], to: &json)
        case .number(let range):
            type(["integer"], to: &json)
            json.member("minimum", range.lowerBound)
            json.member("maximum", range.upperBound)
        case .ratio:
            type(["number"], to: &json)
            json.member("minimum", 0)
            json.member("maximum", 1)
        case .flag: type(["boolean"], to: &json)
        case .words(let words): names("enum", words, to: &json)
        case .size:
            type(["string", "integer"], to: &json)
            json.member("pattern", "^[0-9]+(B|KiB|MiB|GiB)?$")
        case .duration:
            // Zero needs no unit.
            type(["string", "integer"], to: &json)
            json.member("pattern", "^(0|[0-9]+(ms|s|m|h|d))$")
            json.member("minimum", 0)
            json.member("maximum", 0)
        }
    }

    private static func type(_ types: [String], to json: inout JSONWriter) {
        guard types.count == 1 else { return names("type", types, to: &json) }
        json.member("type", types[0])
    }

    private static func names(_ name: StaticString, _ list: [String], to json: inout JSONWriter) {
        json.name(name)
        json.beginArray()
        for text in list { json.string(text) }
        json.endArray()
    }
}
