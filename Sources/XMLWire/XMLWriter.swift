/// Writes XML: elements, attributes and escaped text, appended to one byte array.
///
/// Names are compile-time constants and values are escaped, so that no input of a peer can open or end an element.
/// Characters that XML 1.0 cannot carry become U+FFFD, counted by ``replacedCharacters``.
///
/// ```swift
/// var writer = XMLWriter()
/// writer.start("iq")
/// writer.attribute("type", "result")
/// writer.attribute("id", id)
/// writer.end()
/// ```
package struct XMLWriter: Sendable {
    package private(set) var bytes: [UInt8] = []
    /// Characters that XML 1.0 cannot carry, replaced by U+FFFD.
    package private(set) var replacedCharacters = 0
    private var open: [StaticString] = []
    private var isStartTagOpen = false

    package init(reservingCapacity capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
    }

    /// Clears the text but keeps the storage.
    ///
    /// Open elements stay open: a stream's start and end tag may be in different fillings.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        replacedCharacters = 0
    }

    package mutating func declaration() {
        append("<?xml version='1.0'?>")
    }

    /// Writes `<name`, with its prefix if it has one; attributes may follow.
    package mutating func start(_ name: StaticString) {
        finishStartTag()
        append("<")
        append(name)
        open.append(name)
        isStartTagOpen = true
    }

    /// Writes an attribute or namespace declaration of the element just started.
    package mutating func attribute(_ name: StaticString, _ value: some StringProtocol) {
        precondition(isStartTagOpen, "an attribute outside of a start tag")
        append(" ")
        append(name)
        append("='")
        escape(value, in: .attribute)
        append("'")
    }

    /// Writes the `>` of the element just started, if it is missing: for a stream header.
    package mutating func finishStartTag() {
        guard isStartTagOpen else { return }
        append(">")
        isStartTagOpen = false
    }

    package mutating func text(_ value: some StringProtocol) {
        finishStartTag()
        escape(value, in: .text)
    }

    /// Writes character data given as UTF-8; ill-formed sequences become U+FFFD.
    package mutating func text(utf8 value: some Collection<UInt8>) {
        text(String(decoding: value, as: UTF8.self))
    }

    /// Ends the innermost open element, as `/>` if it is empty.
    package mutating func end() {
        precondition(!open.isEmpty, "an end tag without its element")
        let name = open.removeLast()
        if isStartTagOpen {
            append("/>")
            isStartTagOpen = false
        } else {
            append("</")
            append(name)
            append(">")
        }
    }

    // MARK: - Escaping

    private enum Place {
        case text
        case attribute
    }

    private mutating func escape(_ value: some StringProtocol, in place: Place) {
        var value = String(value)
        value.withUTF8 { escape($0, in: place) }
    }

    private mutating func escape(_ value: UnsafeBufferPointer<UInt8>, in place: Place) {
        var plainStart = 0
        var index = 0
        while index < value.count {
            guard let (replacement, length) = replacement(in: value, at: index, place) else {
                index += 1
                continue
            }
            bytes.append(contentsOf: value[plainStart..<index])
            append(replacement)
            index += length
            plainStart = index
        }
        bytes.append(contentsOf: value[plainStart...])
    }

    /// The replacement of the character at `index`, and the character's length; nil if it stays.
    private mutating func replacement(
        in value: UnsafeBufferPointer<UInt8>,
        at index: Int,
        _ place: Place
    ) -> (StaticString, Int)? {
        switch value[index] {
        case UInt8(ascii: "&"): return ("&amp;", 1)
        case UInt8(ascii: "<"): return ("&lt;", 1)
        // Everywhere, so that `]]>` needs no special case.
        case UInt8(ascii: ">"): return ("&gt;", 1)
        // A carriage return is read as a line feed unless it is a reference, and in attributes all three are read as
        // spaces.
        case 0x0D: return ("&#13;", 1)
        case 0x0A: return place == .attribute ? ("&#10;", 1) : nil
        case 0x09: return place == .attribute ? ("&#9;", 1) : nil
        case UInt8(ascii: "'"): return place == .attribute ? ("&apos;", 1) : nil
        case UInt8(ascii: "\""): return place == .attribute ? ("&quot;", 1) : nil
        case 0x00..<0x20:
            replacedCharacters += 1
            return ("\u{FFFD}", 1)
        case 0xEF where index + 2 < value.count && value[index + 1] == 0xBF && value[index + 2] >= 0xBE:
            // U+FFFE and U+FFFF.
            replacedCharacters += 1
            return ("\u{FFFD}", 3)
        default: return nil
        }
    }

    private mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }
}
