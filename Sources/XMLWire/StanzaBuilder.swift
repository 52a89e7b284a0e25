import CLibXML2

/// Fills the one ``Stanza`` of a framer from libxml2's callbacks.
struct StanzaBuilder {
    /// A piece of an element's direct text that does not follow the text before it, because a child stands between.
    private struct LaterText {
        var element: Int
        var range: Range<Int>
    }

    /// Storage above this is given back after each stanza, so that one large stanza does not stay for good.
    private static let keptBytes = 16 * 1024

    let stanza = Stanza()
    /// Indices of the open elements, the innermost last.
    private var open: [Int] = []
    private var laterTexts: [LaterText] = []
    /// The namespace stored last: libxml2 interns names, so that an equal pointer is an equal name while one context
    /// lives, and a context lives for a whole stanza.
    private var lastNamespace: (name: UnsafePointer<xmlChar>, range: Range<Int>)?

    var elementCount: Int { stanza.elements.count }

    mutating func start(
        name: UnsafePointer<xmlChar>,
        namespace: UnsafePointer<xmlChar>?,
        attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?,
        count: Int
    ) {
        let storedName = store(name)
        let storedNamespace = store(namespace: namespace)
        let first = stanza.attributes.count
        if let attributes { store(attributes, count: count) }
        let position = stanza.bytes.count
        let index = stanza.elements.count
        stanza.elements.append(
            Stanza.Element(
                depth: open.count,
                parent: open.last ?? -1,
                name: storedName,
                namespace: storedNamespace,
                attributes: first..<stanza.attributes.count,
                text: position..<position,
                end: index + 1
            )
        )
        open.append(index)
    }

    /// Adds character data to the innermost open element.
    mutating func text(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let element = open.last else { return }
        let start = stanza.bytes.count
        stanza.bytes.append(contentsOf: bytes)
        let end = stanza.bytes.count
        let known = stanza.elements[element].text
        if known.upperBound == start {
            stanza.elements[element].text = known.lowerBound..<end
        } else if known.isEmpty {
            stanza.elements[element].text = start..<end
        } else if let last = laterTexts.last, last.element == element, last.range.upperBound == start {
            laterTexts[laterTexts.count - 1].range = last.range.lowerBound..<end
        } else {
            laterTexts.append(LaterText(element: element, range: start..<end))
        }
    }

    /// Ends the innermost open element.
    mutating func end() {
        guard let element = open.popLast() else { return }
        stanza.elements[element].end = stanza.elements.count
    }

    /// Makes the direct text of every element contiguous.
    ///
    /// One pass over the pieces, in time and space linear in the stanza: a peer may send `x<a/>x<a/>…`.
    mutating func joinTexts() {
        guard !laterTexts.isEmpty else { return }
        laterTexts.sort { ($0.element, $0.range.lowerBound) < ($1.element, $1.range.lowerBound) }
        var index = 0
        while index < laterTexts.count {
            let element = laterTexts[index].element
            let start = stanza.bytes.count
            copyToEnd(stanza.elements[element].text)
            while index < laterTexts.count, laterTexts[index].element == element {
                copyToEnd(laterTexts[index].range)
                index += 1
            }
            stanza.elements[element].text = start..<stanza.bytes.count
        }
        laterTexts.removeAll(keepingCapacity: laterTexts.count < 64)
    }

    /// Forgets the stanza; storage of an ordinary size is kept, or none at all.
    mutating func reset(keepingStorage: Bool = true) {
        open.removeAll(keepingCapacity: true)
        laterTexts.removeAll(keepingCapacity: laterTexts.capacity < 64)
        lastNamespace = nil
        let limit = keepingStorage ? Self.keptBytes : 0
        stanza.bytes.removeAll(keepingCapacity: stanza.bytes.capacity <= limit)
        stanza.raw.removeAll(keepingCapacity: stanza.raw.capacity <= limit)
        stanza.elements.removeAll(
            keepingCapacity: stanza.elements.capacity * MemoryLayout<Stanza.Element>.stride <= limit
        )
        stanza.attributes.removeAll(
            keepingCapacity: stanza.attributes.capacity * MemoryLayout<Stanza.Attribute>.stride <= limit
        )
    }

    private func store(_ name: UnsafePointer<xmlChar>) -> Range<Int> {
        store(UnsafeBufferPointer(start: name, count: Int(xmlStrlen(name))))
    }

    private func store(_ bytes: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        let start = stanza.bytes.count
        stanza.bytes.append(contentsOf: bytes)
        return start..<stanza.bytes.count
    }

    /// Stores an attribute's value, or a namespace name.
    ///
    /// Where it is not asked to substitute entities, libxml2 leaves every `&` of a value as `&#38;` (for a second pass
    /// that its tree builder makes), and decodes everything else.
    private func store(value: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        guard value.contains(UInt8(ascii: "&")) else { return store(value) }
        let start = stanza.bytes.count
        var index = 0
        while index < value.count {
            stanza.bytes.append(value[index])
            index += value[index] == UInt8(ascii: "&") ? 5 : 1
        }
        return start..<stanza.bytes.count
    }

    private mutating func store(namespace: UnsafePointer<xmlChar>?) -> Range<Int> {
        guard let namespace else { return 0..<0 }
        if let lastNamespace, lastNamespace.name == namespace { return lastNamespace.range }
        let range = store(value: UnsafeBufferPointer(start: namespace, count: Int(xmlStrlen(namespace))))
        lastNamespace = (namespace, range)
        return range
    }

    /// Stores SAX2 attributes: five pointers each, local name, prefix, namespace, and the value's start and end.
    private mutating func store(_ attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>, count: Int) {
        for index in 0..<count {
            let entry = attributes + index * 5
            guard let name = entry[0], let start = entry[3], let end = entry[4] else { continue }
            let storedName = store(name)
            let namespace = store(namespace: entry[2])
            let value = store(value: UnsafeBufferPointer(start: start, count: end - start))
            stanza.attributes.append(Stanza.Attribute(name: storedName, namespace: namespace, value: value))
        }
    }

    private func copyToEnd(_ range: Range<Int>) {
        stanza.bytes.reserveCapacity(stanza.bytes.count + range.count)
        for position in range { stanza.bytes.append(stanza.bytes[position]) }
    }
}
