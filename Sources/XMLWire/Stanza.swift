import Glibc

/// One top-level child of the stream (or the stream's own start tag), held in flat storage that the framer reuses.
///
/// Elements stand in document order; a parent always stands before its children. All text is UTF-8 with references
/// already decoded. A `Stanza` is *lent* for the duration of the call that hands it over: whoever wants to keep
/// something copies it out.
package final class Stanza {
    /// One element.
    package struct Element {
        /// 0 for the stanza itself.
        package var depth: Int
        /// Index of the parent; -1 for the stanza itself.
        package var parent: Int
        /// Local name.
        package var name: Range<Int>
        /// Namespace name (URI); empty where there is none.
        package var namespace: Range<Int>
        /// Its attributes, as indices into ``Stanza/attributes``.
        ///
        /// Namespace declarations are not among them.
        package var attributes: Range<Int>
        /// The character data directly inside it, concatenated; that of its children is not included.
        package var text: Range<Int>
        /// One past its last descendant, as an index into ``Stanza/elements``.
        package var end: Int

        package init(
            depth: Int,
            parent: Int,
            name: Range<Int>,
            namespace: Range<Int>,
            attributes: Range<Int>,
            text: Range<Int>,
            end: Int
        ) {
            self.depth = depth
            self.parent = parent
            self.name = name
            self.namespace = namespace
            self.attributes = attributes
            self.text = text
            self.end = end
        }
    }

    /// One attribute.
    package struct Attribute {
        /// Local name.
        package var name: Range<Int>
        /// Namespace name; empty for an attribute without a prefix.
        package var namespace: Range<Int>
        /// Value, references decoded.
        package var value: Range<Int>

        package init(name: Range<Int>, namespace: Range<Int>, value: Range<Int>) {
            self.name = name
            self.namespace = namespace
            self.value = value
        }
    }

    /// What a stanza holds.
    ///
    /// Behind a pointer, so that no look at it pays for a check of exclusive access: there are dozens for each message.
    @usableFromInline
    struct Contents {
        @usableFromInline var bytes: [UInt8] = []
        @usableFromInline var elements: [Element] = []
        @usableFromInline var attributes: [Attribute] = []
        @usableFromInline var raw: [UInt8] = []
    }

    /// Owned, freed in `deinit`.
    @usableFromInline let contents: UnsafeMutablePointer<Contents>

    /// Storage of all names, values and texts.
    @inlinable package var bytes: [UInt8] {
        get { contents.pointee.bytes }
        _modify { yield &contents.pointee.bytes }
    }
    /// The elements in document order; index 0 is the stanza itself.
    @inlinable package var elements: [Element] {
        get { contents.pointee.elements }
        _modify { yield &contents.pointee.elements }
    }
    /// How many elements there are.
    // Not by way of the array: it would be retained, as it is for each look from another module.
    package var elementCount: Int { contents.pointee.elements.count }

    /// One of the elements.
    package func element(at index: Int) -> Element { contents.pointee.elements[index] }

    /// The attributes of all elements.
    @inlinable package var attributes: [Attribute] {
        get { contents.pointee.attributes }
        _modify { yield &contents.pointee.attributes }
    }
    /// The stanza's bytes exactly as they came, from `<` to `>`.
    ///
    /// Empty for a stream header.
    @inlinable package var raw: [UInt8] {
        get { contents.pointee.raw }
        _modify { yield &contents.pointee.raw }
    }

    package init() {
        contents = .allocate(capacity: 1)
        contents.initialize(to: Contents())
    }

    deinit {
        contents.deinitialize(count: 1)
        contents.deallocate()
    }

    /// Forgets the contents and keeps the storage.
    package func reset() {
        bytes.removeAll(keepingCapacity: true)
        elements.removeAll(keepingCapacity: true)
        attributes.removeAll(keepingCapacity: true)
        raw.removeAll(keepingCapacity: true)
    }

    /// Whether an element has this local name and namespace.
    package func element(_ index: Int, is name: StaticString, in namespace: StaticString) -> Bool {
        equals(elements[index].name, name) && equals(elements[index].namespace, namespace)
    }

    /// Whether the stored bytes are exactly this text.
    package func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return bytes.withUnsafeBytes { storage in
            text.withUTF8Buffer { wanted in
                // Only what is empty can be without an address.
                guard let stored = UnsafeRawBufferPointer(rebasing: storage[range]).baseAddress,
                    let wanted = wanted.baseAddress
                else { return true }
                return memcmp(stored, wanted, range.count) == 0
            }
        }
    }

    /// The value of an attribute without a namespace, or nil.
    package func attribute(_ name: StaticString, of index: Int) -> Range<Int>? {
        for position in elements[index].attributes
        where equals(attributes[position].name, name) && attributes[position].namespace.isEmpty {
            return attributes[position].value
        }
        return nil
    }

    /// The first direct child with this name and namespace, or nil.
    package func child(_ name: StaticString, in namespace: StaticString, of parent: Int = 0) -> Int? {
        var index = parent + 1
        while index < elements[parent].end {
            if element(index, is: name, in: namespace) { return index }
            index = elements[index].end
        }
        return nil
    }

    /// The indices of the direct children, in document order.
    package func children(of parent: Int = 0) -> [Int] {
        var result: [Int] = []
        var index = parent + 1
        while index < elements[parent].end {
            result.append(index)
            index = elements[index].end
        }
        return result
    }

    /// Puts the elements of one namespace into another; attributes stay where they are, and so does ``raw``.
    package func moveElements(from namespace: StaticString, to other: StaticString) {
        var stored = 0..<0
        // Elements mostly share the storage of their namespace's name.
        var last = 0..<0
        for index in elements.indices {
            let range = elements[index].namespace
            guard !range.isEmpty, range == last || equals(range, namespace) else { continue }
            last = range
            if stored.isEmpty {
                let start = bytes.count
                other.withUTF8Buffer { bytes.append(contentsOf: $0) }
                stored = start..<bytes.count
            }
            elements[index].namespace = stored
        }
    }

    /// The stored bytes as a `String`.
    ///
    /// For negotiation and errors, not for the hot path.
    package func string(_ range: Range<Int>) -> String {
        String(decoding: bytes[range], as: UTF8.self)
    }
}
