/// Reads a rejected stanza to its end, in one pass and with little memory.
///
/// libxml2 would need several times a stanza's size for 80,000 open elements or attributes, and time quadratic in the
/// attributes of a tag. This keeps only the names of the open elements. It enforces XML's grammar except for two rules
/// that take memory to check (a repeated attribute, and which non-ASCII characters a name may have), and not the rules
/// of namespaces. It refuses what XMPP forbids.
///
/// A stanza's end can't depend on its reader: the fuzz target compares this one with libxml2.
struct StanzaSkipper {
    enum Outcome: Equatable {
        /// All bytes belong to the stanza, and more must come.
        case more
        /// The stanza ends before this index.
        case ended(Int)
        /// The bytes end the stream.
        case failed(XMLStreamError.Code)
    }

    private enum Step {
        case more, ended
        case failed(XMLStreamError.Code)
    }

    private enum State {
        /// Before the stanza's `<`.
        case start
        /// After a `<`.
        case markup
        /// In a start tag after whitespace: an attribute or the end may follow.
        case tag
        /// After an attribute's value: whitespace or the end must follow.
        case afterValue
        case name, attribute, equals, quote, value
        /// After the `/` of an empty element.
        case slash
        case endName, endTag
        /// Inside `![CDATA[`.
        case section
        case cdata, text
    }

    private static let sectionStart = Array("![CDATA[".utf8)

    /// The stanza's name; known once its start tag's name has been read.
    private(set) var name = StanzaName.other
    private var state = State.start
    /// For each open element its name, then the name's length (``pushLength(_:)``).
    private var open: [UInt8] = []
    /// Where the current name begins in ``open``; in an end tag, where the name to compare with begins.
    private var nameStart = 0
    /// In an end tag, where the name to compare with ends.
    private var nameEnd = 0
    /// How much is matched of a fixed text: `![CDATA[`, an end tag's name, `]]`.
    private var matched = 0
    private var quoteMark: UInt8 = 0
    private var reference: ReferenceCheck?
    private var characters = UTF8Check()

    var capacity: Int { open.capacity }

    mutating func read(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        for index in bytes.indices {
            let byte = bytes[index]
            if byte >= 0x80 || characters.isUnfinished {
                guard characters.take(byte) else { return .failed(.notWellFormed) }
            } else if byte < 0x20, !Self.isSpace(byte) {
                return .failed(.notWellFormed)
            }
            switch step(byte) {
            case .more: break
            case .ended: return .ended(index + 1)
            case .failed(let code): return .failed(code)
            }
        }
        return .more
    }

    private mutating func step(_ byte: UInt8) -> Step {
        if reference != nil { return refer(byte) }
        switch state {
        case .text: return text(byte)
        case .value: return value(byte)
        case .cdata: return cdata(byte)
        case .start:
            guard byte == UInt8(ascii: "<") else { return .failed(.notWellFormed) }
            state = .markup
        case .markup: return markup(byte)
        case .section: return section(byte)
        case .name:
            guard !Self.continuesName(byte) else {
                open.append(byte)
                return .more
            }
            if nameStart == 0 { name = StanzaName(open) }
            pushLength(open.count - nameStart)
            return tag(byte)
        case .tag, .afterValue: return tag(byte)
        case .attribute, .equals, .quote: return attribute(byte)
        case .slash: return byte == UInt8(ascii: ">") ? pop() : .failed(.notWellFormed)
        case .endName, .endTag: return endTag(byte)
        }
        return .more
    }

    // MARK: - Content

    private mutating func text(_ byte: UInt8) -> Step {
        switch byte {
        case UInt8(ascii: "<"):
            matched = 0
            state = .markup
        case UInt8(ascii: "&"):
            matched = 0
            reference = ReferenceCheck()
        case UInt8(ascii: "]"): matched = min(matched + 1, 2)
        case UInt8(ascii: ">") where matched == 2: return .failed(.notWellFormed)
        default: matched = 0
        }
        return .more
    }

    private mutating func refer(_ byte: UInt8) -> Step {
        switch reference?.take(byte) {
        case .more?: break
        case .failed(let code)?: return .failed(code)
        case .complete?, nil: reference = nil
        }
        return .more
    }

    private mutating func markup(_ byte: UInt8) -> Step {
        switch byte {
        case UInt8(ascii: "/") where !open.isEmpty:
            (nameStart, nameEnd) = innermost()
            matched = 0
            state = .endName
        case UInt8(ascii: "!") where !open.isEmpty:
            matched = 1
            state = .section
        case UInt8(ascii: "?"): return .failed(.processingInstruction)
        default:
            guard Self.beginsName(byte) else { return .failed(.notWellFormed) }
            nameStart = open.count
            open.append(byte)
            state = .name
        }
        return .more
    }

    private mutating func section(_ byte: UInt8) -> Step {
        if matched == 1, byte == UInt8(ascii: "-") { return .failed(.comment) }
        guard byte == Self.sectionStart[matched] else { return .failed(.notWellFormed) }
        matched += 1
        if matched == Self.sectionStart.count {
            matched = 0
            state = .cdata
        }
        return .more
    }

    private mutating func cdata(_ byte: UInt8) -> Step {
        if byte == UInt8(ascii: "]") {
            matched = min(matched + 1, 2)
        } else {
            if byte == UInt8(ascii: ">"), matched == 2 { state = .text }
            matched = 0
        }
        return .more
    }

    // MARK: - Tags

    /// Handles a byte of a start tag, outside names and values.
    private mutating func tag(_ byte: UInt8) -> Step {
        switch byte {
        case UInt8(ascii: ">"):
            matched = 0
            state = .text
        case UInt8(ascii: "/"): state = .slash
        case _ where Self.isSpace(byte): state = .tag
        case _ where state == .tag && Self.beginsName(byte): state = .attribute
        default: return .failed(.notWellFormed)
        }
        return .more
    }

    private mutating func attribute(_ byte: UInt8) -> Step {
        switch (state, byte) {
        case (.attribute, _) where Self.continuesName(byte): break
        case (.attribute, UInt8(ascii: "=")), (.equals, UInt8(ascii: "=")): state = .quote
        case (.attribute, _) where Self.isSpace(byte): state = .equals
        case (.equals, _) where Self.isSpace(byte), (.quote, _) where Self.isSpace(byte): break
        case (.quote, UInt8(ascii: "'")), (.quote, UInt8(ascii: "\"")):
            quoteMark = byte
            state = .value
        default: return .failed(.notWellFormed)
        }
        return .more
    }

    private mutating func value(_ byte: UInt8) -> Step {
        switch byte {
        case quoteMark: state = .afterValue
        case UInt8(ascii: "<"): return .failed(.notWellFormed)
        case UInt8(ascii: "&"): reference = ReferenceCheck()
        default: break
        }
        return .more
    }

    private mutating func endTag(_ byte: UInt8) -> Step {
        let isComplete = nameStart + matched == nameEnd
        switch byte {
        case UInt8(ascii: ">") where isComplete: return pop()
        case _ where isComplete && Self.isSpace(byte): state = .endTag
        case _ where state == .endName && !isComplete && byte == open[nameStart + matched]: matched += 1
        default: return .failed(.notWellFormed)
        }
        return .more
    }

    private mutating func pop() -> Step {
        open.removeLast(open.count - innermost().start)
        matched = 0
        state = .text
        return open.isEmpty ? .ended : .more
    }

    // MARK: - Open elements

    /// Writes a length in digits of seven bits, the highest first; all but the first are marked.
    private mutating func pushLength(_ length: Int) {
        var shift = 0
        while length >> (shift + 7) > 0 { shift += 7 }
        open.append(UInt8(truncatingIfNeeded: length >> shift))
        while shift > 0 {
            shift -= 7
            open.append(UInt8(truncatingIfNeeded: length >> shift & 0x7F | 0x80))
        }
    }

    /// The place of the innermost open element's name.
    private func innermost() -> (start: Int, end: Int) {
        var length = 0
        var shift = 0
        var position = open.count - 1
        while open[position] >= 0x80 {
            length |= Int(open[position] & 0x7F) << shift
            shift += 7
            position -= 1
        }
        length |= Int(open[position]) << shift
        return (position - length, position)
    }

    // MARK: - Characters

    static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x09 || byte == 0x0D }

    static func beginsName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"),
            UInt8(ascii: ":"), 0x80...:
            true
        default: false
        }
    }

    static func continuesName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."): true
        default: beginsName(byte)
        }
    }
}
