import CLibXML2

/// Fills the framer's only ``Stanza`` from libxml2's callbacks.
///
/// It uses its own arrays while a stanza is being read, and swaps them with those of the ``Stanza`` to be lent: each
/// access to a class's property costs an exclusivity check, which at a callback per quotation mark was half the time of
/// a stanza. For the same reason the framer holds its builder behind a pointer.
struct StanzaBuilder {
    typealias Refusal = PlainStanzaReader.Refusal

    /// A start tag as libxml2 reports it.
    struct StartTag {
        var name: UnsafePointer<xmlChar>
        var namespace: UnsafePointer<xmlChar>?
        /// For each declaration its prefix, null for the default namespace, and its name.
        var declarations: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?
        var declarationCount: Int
        /// Five pointers each: local name, prefix, namespace, and the value's start and end.
        var attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?
        var attributeCount: Int
    }

    /// Larger storage is released after each stanza, so that one large stanza does not keep its memory.
    private static let keptBytes = 16 * 1024
    /// The parser's average memory for a name that it may not have met before.
    private static let nameBytes = 32
    /// The number of namespaces searched linearly.
    private static let fewLimit = 8

    private let limits: StreamLimits
    private let stanza = Stanza()
    /// The later ``Stanza/raw``.
    private(set) var raw: [UInt8] = []
    private var bytes: [UInt8] = []
    private var elements: [Stanza.Element] = []
    private var attributes: [Stanza.Attribute] = []
    /// Indices of the open elements, the innermost last.
    private var open: [Int] = []
    /// Pieces of elements' direct text, separated from the earlier text by a child.
    private var laterTexts: [(element: Int, range: Range<Int>)] = []
    /// The stored namespaces, each once: thousands of elements and attributes may share a name.
    ///
    /// libxml2 interns names, so within one context, which lives for the whole stanza, an equal pointer is an equal
    /// name. The first few are searched linearly, as there are rarely more than three; the others are hashed.
    private var fewNamespaces: [(name: UnsafePointer<xmlChar>, range: Range<Int>)] = []
    private var fewCount = 0
    private var otherNamespaces: [UnsafePointer<xmlChar>: Range<Int>] = [:]
    /// The elements in ``open`` that declare namespaces, and how many.
    private var declarations: [(depth: Int, count: Int)] = []
    /// Namespace declarations in scope here.
    private var openNamespaces = 0
    /// The output of the plain reader, and its stacks.
    private var plain = PlainStorage()
    /// The size of a prefix of ``raw``, once measured.
    private var measured = (bytes: 0, size: StanzaSize())

    init(limits: StreamLimits) { self.limits = limits }

    var elementCount: Int { elements.count }
    /// The capacity of the stanza's storage in bytes.
    var capacity: Int {
        raw.capacity + bytes.capacity + elements.capacity * MemoryLayout<Stanza.Element>.stride
            + attributes.capacity * MemoryLayout<Stanza.Attribute>.stride
    }

    mutating func start(_ tag: StartTag) {
        if tag.declarationCount > 0 {
            declarations.append((open.count, tag.declarationCount))
            openNamespaces += tag.declarationCount
        }
        let storedName = store(tag.name)
        let storedNamespace = store(namespace: tag.namespace)
        let first = attributes.count
        if let given = tag.attributes { store(given, count: tag.attributeCount) }
        let position = bytes.count
        let index = elements.count
        elements.append(
            Stanza.Element(
                depth: open.count,
                name: storedName,
                namespace: storedNamespace,
                attributes: first..<attributes.count,
                text: position..<position,
                end: index + 1
            )
        )
        open.append(index)
    }

    /// The limit that the stanza exceeds so far; not a getter, which would copy the builder behind its pointer.
    mutating func excess() -> SkippedStanza.Reason? {
        if openNamespaces > limits.openNamespaces { return .namespaces }
        // About the size of the parsed form, with the parser's own record of the names.
        let parsedBytes =
            bytes.count + elements.count * (MemoryLayout<Stanza.Element>.stride + Self.nameBytes)
            + attributes.count * (MemoryLayout<Stanza.Attribute>.stride + Self.nameBytes)
            + laterTexts.count * MemoryLayout<(Int, Range<Int>)>.stride
        return parsedBytes > limits.parsedBytes ? .memory : nil
    }

    /// The `id` of the unfinished stanza; nil if its start tag was not stored, or the id is longer than any of ours.
    func stanzaID() -> [UInt8]? {
        guard
            let attribute = elements.first.flatMap({ element in
                attributes[element.attributes].first { $0.namespace.isEmpty && bytes[$0.name].elementsEqual("id".utf8) }
            }), attribute.value.count <= SkippedStanza.idLimit
        else { return nil }
        return Array(bytes[attribute.value])
    }

    /// Adds character data to the innermost open element.
    mutating func text(_ text: UnsafeBufferPointer<UInt8>) {
        guard let element = open.last else { return }
        let start = bytes.count
        bytes.append(contentsOf: text)
        let end = bytes.count
        let known = elements[element].text
        if known.upperBound == start {
            elements[element].text = known.lowerBound..<end
        } else if known.isEmpty {
            elements[element].text = start..<end
        } else if let last = laterTexts.last, last.element == element, last.range.upperBound == start {
            laterTexts[laterTexts.count - 1].range = last.range.lowerBound..<end
        } else {
            laterTexts.append((element, start..<end))
        }
    }

    mutating func end() {
        guard let element = open.popLast() else { return }
        elements[element].end = elements.count
        let last = declarations.count - 1
        guard last >= 0, declarations[last].depth == open.count else { return }
        openNamespaces -= declarations[last].count
        declarations.removeLast()
    }

    /// Makes the direct text of every element contiguous, in linear time and space: a peer may send `x<a/>x<a/>…`.
    mutating func joinTexts() {
        guard !laterTexts.isEmpty else { return }
        laterTexts.sort { ($0.element, $0.range.lowerBound) < ($1.element, $1.range.lowerBound) }
        var index = 0
        while index < laterTexts.count {
            let element = laterTexts[index].element
            let start = bytes.count
            copyToEnd(elements[element].text)
            while index < laterTexts.count, laterTexts[index].element == element {
                copyToEnd(laterTexts[index].range)
                index += 1
            }
            elements[element].text = start..<bytes.count
        }
        laterTexts.removeAll(keepingCapacity: laterTexts.count < 64)
    }

    mutating func keepRaw(_ bytes: UnsafeRawBufferPointer) { raw.append(contentsOf: bytes) }

    /// The size of the unfinished stanza, a reference counted as one byte; exact from `limit` on.
    mutating func size(knownBelow limit: Int) -> Int {
        guard raw.count >= limit else { return raw.count }
        raw[measured.bytes...].withUnsafeBytes { measured.size.add($0) }
        measured.bytes = raw.count
        return measured.size.bytes
    }

    /// Swaps the contents with the stanza's, to lend them or to take them back.
    mutating func exchangeContents() -> Stanza {
        swap(&bytes, &stanza.bytes)
        swap(&elements, &stanza.elements)
        swap(&attributes, &stanza.attributes)
        swap(&raw, &stanza.raw)
        return stanza
    }

    /// Clears the stanza; keeps storage of ordinary size, or none.
    mutating func reset(keepingStorage: Bool = true) {
        open.removeAll(keepingCapacity: keepingStorage)
        if !laterTexts.isEmpty { laterTexts.removeAll(keepingCapacity: laterTexts.capacity < 64) }
        fewCount = 0
        if !keepingStorage { fewNamespaces = [] }
        if !otherNamespaces.isEmpty { otherNamespaces = [:] }
        if !declarations.isEmpty || !keepingStorage { declarations.removeAll(keepingCapacity: keepingStorage) }
        openNamespaces = 0
        measured = (0, StanzaSize())
        if !keepingStorage { plain = PlainStorage() }
        let limit = keepingStorage ? Self.keptBytes : 0
        bytes.removeAll(keepingCapacity: bytes.capacity <= limit)
        raw.removeAll(keepingCapacity: raw.capacity <= limit)
        elements.removeAll(keepingCapacity: elements.capacity * MemoryLayout<Stanza.Element>.stride <= limit)
        attributes.removeAll(keepingCapacity: attributes.capacity * MemoryLayout<Stanza.Attribute>.stride <= limit)
    }

    /// Storage of a ``PlainStanzaReader``, kept from stanza to stanza.
    private struct PlainStorage {
        var output: [UInt8] = []
        var open: [PlainStanzaReader.Open] = []
        var declarations: [PlainStanzaReader.Declaration] = []
    }

    /// Reads the stanza at the start of these bytes, and returns the index after its end; changes nothing if it throws.
    mutating func readPlain(_ input: UnsafeRawBufferPointer, inherited: [UInt8]) throws(Refusal) -> Int {
        let end = try readContents(input, inherited: inherited)
        raw.append(contentsOf: UnsafeRawBufferPointer(rebasing: input[..<end]))
        return end
    }

    /// The same for the bytes in ``raw`` and those that follow, with an index in the latter.
    mutating func readPlain(followedBy more: UnsafeRawBufferPointer, inherited: [UInt8]) throws(Refusal) -> Int {
        let begun = raw.count
        raw.append(contentsOf: more)
        // Taken out, since the storage to fill is in the same value.
        var whole: [UInt8] = []
        swap(&whole, &raw)
        defer { swap(&whole, &raw) }
        do throws(Refusal) {
            let end = try whole.withUnsafeBufferPointer { whole throws(Refusal) in
                try readContents(UnsafeRawBufferPointer(whole), inherited: inherited)
            }
            whole.removeLast(whole.count - end)
            return end - begun
        } catch {
            whole.removeLast(more.count)
            throw error
        }
    }

    private mutating func readContents(_ input: UnsafeRawBufferPointer, inherited: [UInt8]) throws(Refusal) -> Int {
        let count = min(input.count, limits.stanzaBytes, PlainStanzaReader.maximumBytes)
        let room = count + inherited.count + PlainStanzaReader.slack
        if plain.output.count < room {
            plain.output = [UInt8](repeating: 0, count: (room + 0xFFF) & ~0xFFF)
        }
        // Taken out, since the closure uses the rest of the storage.
        var output: [UInt8] = []
        swap(&output, &plain.output)
        defer { swap(&output, &plain.output) }
        defer {
            plain.open.removeAll(keepingCapacity: true)
            plain.declarations.removeAll(keepingCapacity: true)
        }
        return try output.withUnsafeMutableBufferPointer { output throws(Refusal) in
            try inherited.withUnsafeBufferPointer { inherited throws(Refusal) in
                guard let source = input.baseAddress?.assumingMemoryBound(to: UInt8.self),
                    let target = output.baseAddress
                else { throw .other }
                var reader = PlainStanzaReader(
                    input: source,
                    end: count,
                    output: target,
                    limits: limits,
                    inherited: inherited
                )
                lendStorage(to: &reader)
                defer { lendStorage(to: &reader) }
                do throws(Refusal) {
                    let end = try reader.read()
                    bytes.append(contentsOf: UnsafeBufferPointer(start: target, count: reader.written))
                    return end
                } catch {
                    reader.elements.removeAll(keepingCapacity: true)
                    reader.attributes.removeAll(keepingCapacity: true)
                    throw error
                }
            }
        }
    }

    /// Lends the storage to the reader, or takes it back.
    private mutating func lendStorage(to reader: inout PlainStanzaReader) {
        swap(&elements, &reader.elements)
        swap(&attributes, &reader.attributes)
        swap(&plain.open, &reader.open)
        swap(&plain.declarations, &reader.declarations)
    }

    private mutating func store(_ name: UnsafePointer<xmlChar>) -> Range<Int> {
        store(UnsafeBufferPointer(start: name, count: Int(xmlStrlen(name))))
    }

    private mutating func store(_ text: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        let start = bytes.count
        bytes.append(contentsOf: text)
        return start..<bytes.count
    }

    /// Stores an attribute's value or a namespace name.
    ///
    /// Without entity substitution, libxml2 leaves every `&` of a value as `&#38;`, and decodes the rest.
    private mutating func store(value: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        guard value.contains(UInt8(ascii: "&")) else { return store(value) }
        let start = bytes.count
        var index = 0
        while index < value.count {
            bytes.append(value[index])
            index += value[index] == UInt8(ascii: "&") ? 5 : 1
        }
        return start..<bytes.count
    }

    private mutating func store(namespace: UnsafePointer<xmlChar>?) -> Range<Int> {
        guard let namespace else { return 0..<0 }
        // By index: an iterator would retain the array.
        for index in 0..<fewCount where fewNamespaces[index].name == namespace { return fewNamespaces[index].range }
        let isFull = fewCount == Self.fewLimit
        if isFull, let range = otherNamespaces[namespace] { return range }
        let range = store(value: UnsafeBufferPointer(start: namespace, count: Int(xmlStrlen(namespace))))
        if isFull {
            otherNamespaces[namespace] = range
        } else {
            if fewCount < fewNamespaces.count {
                fewNamespaces[fewCount] = (namespace, range)
            } else {
                fewNamespaces.append((namespace, range))
            }
            fewCount += 1
        }
        return range
    }

    /// Stores attributes as a ``StartTag`` has them.
    private mutating func store(_ given: UnsafeMutablePointer<UnsafePointer<xmlChar>?>, count: Int) {
        for index in 0..<count {
            let entry = given + index * 5
            guard let name = entry[0], let start = entry[3], let end = entry[4] else { continue }
            let storedName = store(name)
            let namespace = store(namespace: entry[2])
            let value = store(value: UnsafeBufferPointer(start: start, count: end - start))
            attributes.append(Stanza.Attribute(name: storedName, namespace: namespace, value: value))
        }
    }

    private mutating func copyToEnd(_ range: Range<Int>) {
        bytes.reserveCapacity(bytes.count + range.count)
        for position in range { bytes.append(bytes[position]) }
    }
}
