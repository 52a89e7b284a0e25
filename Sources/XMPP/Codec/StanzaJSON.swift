import Vocabulary
import XMLWire

/// Writes elements as canonical JSON: the same for each copy of a stanza, however a server spells it.
///
/// An element is `{"name":…,"xmlns":…,"attributes":{…},"text":…,"children":[…]}`, without the members that are empty.
/// `xmlns` stands where it is not the parent's, attributes are sorted by their bytes (`xml:lang`, or the name behind
/// its namespace in braces), and `text` is what the element holds directly, joined. Prefixes are not kept. Of the stanza
/// itself these are left out, in which copies differ: its addresses, and what servers add (`<delay/>`, XEP-0203,
/// `<stanza-id/>`, XEP-0359, and `<offline/>`, XEP-0013).
struct StanzaJSON {
    private let stanza: Stanza
    private let limit: Int
    private var output: [UInt8] = []

    /// An element; nil if it would be many times longer than the stanza, as with a long namespace that alternates.
    static func object(_ index: Int, of stanza: Stanza) -> [UInt8]? {
        var writer = StanzaJSON(stanza)
        writer.append(index, within: 0..<0)
        return writer.isOver ? nil : writer.output
    }

    /// An array of elements; nil as for ``object(_:of:)``.
    static func array(_ indices: [Int], of stanza: Stanza) -> [UInt8]? {
        var writer = StanzaJSON(stanza)
        writer.append(indices, within: 0..<0)
        return writer.isOver ? nil : writer.output
    }

    private init(_ stanza: Stanza) {
        self.stanza = stanza
        // A tag of four bytes takes 13.
        limit = 4 * stanza.raw.count + 16 << 10
    }

    private var isOver: Bool { output.count > limit }

    private mutating func append(_ indices: some Sequence<Int>, within namespace: Range<Int>) {
        output.append(UInt8(ascii: "["))
        for index in indices {
            append(index, within: namespace)
            output.append(UInt8(ascii: ","))
        }
        if output.last == UInt8(ascii: ",") { output.removeLast() }
        output.append(UInt8(ascii: "]"))
    }

    private mutating func append(_ index: Int, within namespace: Range<Int>) {
        guard !isOver else { return }
        let element = stanza.element(at: index)
        output.append(UInt8(ascii: "{"))
        output.append(member: "name", stanza.bytes[element.name])
        if element.namespace != namespace,
            !stanza.bytes[element.namespace].elementsEqual(stanza.bytes[namespace])
        {
            output.append(member: "xmlns", stanza.bytes[element.namespace])
        }
        appendAttributes(of: index)
        if !element.text.isEmpty { output.append(member: "text", stanza.bytes[element.text]) }
        let children = stanza.children(of: index).filter { index > 0 || !isAdded($0) }
        if !children.isEmpty {
            output.append(xml: "\"children\":")
            append(children, within: element.namespace)
            output.append(UInt8(ascii: ","))
        }
        output.removeLast()
        output.append(UInt8(ascii: "}"))
    }

    private mutating func appendAttributes(of index: Int) {
        let attributes = stanza.attributes[stanza.element(at: index).attributes].compactMap { attribute in
            isAddress(attribute, of: index) ? nil : (key: key(of: attribute), value: attribute.value)
        }
        guard !attributes.isEmpty else { return }
        output.append(xml: "\"attributes\":{")
        for (key, value) in attributes.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) where !isOver {
            output.append(literal: key)
            output.append(UInt8(ascii: ":"))
            output.append(literal: stanza.bytes[value])
            output.append(UInt8(ascii: ","))
        }
        output.removeLast()
        output.append(xml: "},")
    }

    private func key(of attribute: Stanza.Attribute) -> [UInt8] {
        let name = stanza.bytes[attribute.name]
        guard !attribute.namespace.isEmpty else { return Array(name) }
        if stanza.equals(attribute.namespace, "http://www.w3.org/XML/1998/namespace") {
            return Array("xml:".utf8) + name
        }
        return [UInt8(ascii: "{")] + stanza.bytes[attribute.namespace] + [UInt8(ascii: "}")] + name
    }

    private func isAddress(_ attribute: Stanza.Attribute, of index: Int) -> Bool {
        index == 0 && attribute.namespace.isEmpty
            && (stanza.equals(attribute.name, "from") || stanza.equals(attribute.name, "to"))
    }

    /// Whether a server adds this child of the stanza; `archived` is ejabberd's older form of `stanza-id`.
    private func isAdded(_ child: Int) -> Bool {
        stanza.element(child, is: "delay", in: XMLNamespace.delay)
            || stanza.element(child, is: "stanza-id", in: XMLNamespace.stanzaIDs)
            || stanza.element(child, is: "offline", in: XMLNamespace.offline)
            || stanza.element(child, is: "archived", in: "urn:xmpp:mam:tmp")
    }
}

/// Writing JSON by hand, of texts that XML can hold.
extension [UInt8] {
    /// Text as a string literal.
    init(literal text: some Collection<UInt8>) {
        self = []
        append(literal: text)
    }

    /// Appends text as a string literal, at most twice as long and a few bytes.
    mutating func append(literal text: some Collection<UInt8>) {
        reserveCapacity(count + text.count + 2)
        append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                append(UInt8(ascii: "\\"))
                append(byte)
            case 0x0A: append(xml: "\\n")
            case 0x0D: append(xml: "\\r")
            case 0x09: append(xml: "\\t")
            case 0..<0x20: JSONEscape.append(unit: UInt16(byte), to: &self)
            default: append(byte)
            }
        }
        append(UInt8(ascii: "\""))
    }

    /// Appends a string member of a JSON object, and a comma.
    mutating func append(member name: StaticString, _ text: some Collection<UInt8>) {
        append(UInt8(ascii: "\""))
        append(xml: name)
        append(xml: "\":")
        append(literal: text)
        append(UInt8(ascii: ","))
    }
}
