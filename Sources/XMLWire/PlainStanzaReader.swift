import Glibc

/// Reads a plain stanza that is complete in a buffer, in one pass and without libxml2.
///
/// libxml2 calls back for each run of text between two references: with JSON full of `&quot;` that is most of a
/// stanza's cost. Nearly all stanzas need only a small part of XML, and this reads only that part. What it accepts is
/// within every limit and gives exactly libxml2's result, which tests compare over a corpus and its mutations.
/// **Everything else is refused, not judged**: libxml2 then reads the stanza from its first byte.
///
/// The part: names of ASCII letters, digits, `_`, `-` and `.`; prefixes that the stanza itself declares; attributes
/// without a prefix, or `xml:lang`, with ASCII values without references; text and CDATA sections of any characters but
/// CR, with the five named references; each element's text in one piece.
struct PlainStanzaReader {
    enum Refusal: Error {
        /// It continues after the buffer, and is plain as far as it goes.
        case unfinished
        /// It is not plain, or exceeds a limit.
        case other
    }

    struct Open {
        var element: Int
        /// The place of its name in the input, including the prefix: the end tag repeats it.
        var nameStart: Int
        var nameCount: Int
        /// The number of declarations in scope outside it.
        var outerDeclarations: Int
    }

    struct Declaration {
        /// The place of its prefix in the input; empty for the default namespace.
        var prefixStart: Int
        var prefixCount: Int
        /// The place of the namespace name in the output.
        var name: Range<Int>
    }

    /// Longer stanzas are left to libxml2: the output must have room before anything is known of a stanza.
    static let maximumBytes = 16 * 1024
    /// The output's possible excess over the input: two namespaces that need not be in the input, and a vector.
    static let slack = 64

    /// The bytes from the stanza's `<` on.
    let input: UnsafePointer<UInt8>
    let end: Int
    /// Receives names, values and texts; has room for the input, the inherited namespace and ``slack``.
    let output: UnsafeMutablePointer<UInt8>
    let limits: StreamLimits
    /// The default namespace of the stream.
    let inherited: UnsafeBufferPointer<UInt8>
    var at = 0
    var written = 0
    /// Storage lent by the caller.
    var elements: [Stanza.Element] = []
    var attributes: [Stanza.Attribute] = []
    var open: [Open] = []
    var declarations: [Declaration] = []
    /// The number of declarations in scope outside the element whose start tag is being read.
    var outerDeclarations = 0
    /// Where the inherited namespace was stored.
    var inheritedName: Range<Int>?

    /// Reads the stanza, and returns the index after its end.
    mutating func read() throws(Refusal) -> Int {
        repeat {
            // Here is a `<`.
            guard at + 1 < end else { throw .unfinished }
            if input[at + 1] == UInt8(ascii: "/") { try readEndTag() } else { try readStartTag() }
            if open.isEmpty { return at }
            try readContent()
        } while true
    }

    // MARK: - Tags

    private mutating func readStartTag() throws(Refusal) {
        guard elements.count < min(16, limits.elements), open.count < min(8, limits.depth) else { throw .other }
        at += 1
        let start = at
        outerDeclarations = declarations.count
        let firstAttribute = attributes.count
        var (prefixCount, localStart) = (0, start)
        try readName()
        if try peek() == UInt8(ascii: ":") {
            prefixCount = at - start
            at += 1
            localStart = at
            try readName()
        }
        let nameEnd = at
        let isEmpty = try readAttributes(after: firstAttribute)
        guard declarations.count - outerDeclarations <= limits.namespaces else { throw .other }
        let name = copy(from: localStart, count: nameEnd - localStart)
        let namespace = try namespace(ofPrefixAt: start, count: prefixCount)
        let index = elements.count
        elements.append(
            Stanza.Element(
                depth: open.count,
                name: name,
                namespace: namespace,
                attributes: firstAttribute..<attributes.count,
                text: written..<written,
                end: index + 1
            )
        )
        if isEmpty {
            declarations.removeLast(declarations.count - outerDeclarations)
        } else {
            open.append(
                Open(element: index, nameStart: start, nameCount: nameEnd - start, outerDeclarations: outerDeclarations)
            )
        }
    }

    /// Reads attributes to the end of the tag, and returns whether the element is empty.
    private mutating func readAttributes(after first: Int) throws(Refusal) -> Bool {
        while true {
            let start = at
            while at < end, input[at] == 0x20 { at += 1 }
            switch try peek() {
            case UInt8(ascii: ">"):
                at += 1
                return false
            case UInt8(ascii: "/"):
                at += 1
                try expect(UInt8(ascii: ">"))
                return true
            default:
                guard at > start, attributes.count - first < min(16, limits.attributes) else { throw .other }
                try readAttribute(after: first)
            }
        }
    }

    private mutating func readAttribute(after first: Int) throws(Refusal) {
        let start = at
        try readName()
        let count = at - start
        guard try peek() == UInt8(ascii: ":") else {
            if spells(start, count, "xmlns") { return try declare(prefixAt: start, count: 0) }
            let value = try readValue()
            return try append(nameAt: start, count, value, namespace: 0..<0, after: first)
        }
        at += 1
        let localStart = at
        try readName()
        let localCount = at - localStart
        // At the buffer's end, the name may continue.
        _ = try peek()
        if spells(start, count, "xmlns") { return try declare(prefixAt: localStart, count: localCount) }
        guard spells(start, count, "xml"), spells(localStart, localCount, "lang") else { throw .other }
        let value = try readValue()
        let name: StaticString = "http://www.w3.org/XML/1998/namespace"
        let stored = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        // At most once in a stanza, for which there is room.
        for attribute in attributes where !attribute.namespace.isEmpty { throw .other }
        try append(nameAt: localStart, localCount, value, namespace: append(stored), after: first)
    }

    private mutating func append(
        nameAt start: Int,
        _ count: Int,
        _ value: Range<Int>,
        namespace: Range<Int>,
        after first: Int
    ) throws(Refusal) {
        for index in first..<attributes.count {
            let other = attributes[index]
            if other.name.count == count, other.namespace.isEmpty == namespace.isEmpty,
                memcmp(output + other.name.lowerBound, input + start, count) == 0
            {
                throw .other
            }
        }
        let name = copy(from: start, count: count)
        attributes.append(Stanza.Attribute(name: name, namespace: namespace, value: value))
    }

    private mutating func declare(prefixAt start: Int, count: Int) throws(Refusal) {
        guard declarations.count < min(8, limits.openNamespaces) else { throw .other }
        // Reserved, or with its own meaning.
        if count >= 3, spells(start, 3, "xml") { throw .other }
        let name = try readValue()
        guard !name.isEmpty, isOrdinaryNamespace(name) else { throw .other }
        for index in outerDeclarations..<declarations.count
        where declarations[index].prefixCount == count
            && memcmp(input + declarations[index].prefixStart, input + start, count) == 0
        {
            throw .other
        }
        declarations.append(Declaration(prefixStart: start, prefixCount: count, name: name))
    }

    /// Whether a namespace name is valid for libxml2 and not reserved.
    private func isOrdinaryNamespace(_ name: Range<Int>) -> Bool {
        let reserved: StaticString = "http://www.w3.org/"
        if name.count >= reserved.utf8CodeUnitCount,
            memcmp(output + name.lowerBound, reserved.utf8Start, reserved.utf8CodeUnitCount) == 0
        {
            return false
        }
        for index in name {
            switch output[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "."),
                UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "#"):
                continue
            default: return false
            }
        }
        return true
    }

    private mutating func namespace(ofPrefixAt start: Int, count: Int) throws(Refusal) -> Range<Int> {
        var index = declarations.count
        while index > 0 {
            index -= 1
            let declaration = declarations[index]
            if declaration.prefixCount == count, memcmp(input + declaration.prefixStart, input + start, count) == 0 {
                return declaration.name
            }
        }
        guard count == 0 else { throw .other }
        if let inheritedName { return inheritedName }
        let name = append(inherited)
        inheritedName = name
        return name
    }

    private mutating func readEndTag() throws(Refusal) {
        guard let last = open.last else { throw .other }
        let left = end - at - 2
        guard memcmp(input + at + 2, input + last.nameStart, min(left, last.nameCount)) == 0 else { throw .other }
        guard left > last.nameCount else { throw .unfinished }
        guard input[at + 2 + last.nameCount] == UInt8(ascii: ">") else { throw .other }
        at += last.nameCount + 3
        elements[last.element].end = elements.count
        declarations.removeLast(declarations.count - last.outerDeclarations)
        open.removeLast()
    }
}
