import Glibc

/// A top-level child of the stream (or the stream's start tag), in flat storage that the framer reuses.
///
/// Elements are in document order, so a parent comes before its children. All text is UTF-8 with references decoded. A
/// `Stanza` is *lent* for the call that hands it over: copy out what you keep.
package final class Stanza {
    package struct Element {
        /// 0 for the stanza itself.
        package var depth: Int
        package var name: Range<Int>
        /// Namespace name (URI); empty for none.
        package var namespace: Range<Int>
        /// Its attributes without namespace declarations, as indices into ``Stanza/attributes``.
        package var attributes: Range<Int>
        /// The character data directly inside it, concatenated, without that of its children.
        package var text: Range<Int>
        /// One past its last descendant, as an index into ``Stanza/elements``.
        package var end: Int

        package init(
            depth: Int,
            name: Range<Int>,
            namespace: Range<Int>,
            attributes: Range<Int>,
            text: Range<Int>,
            end: Int
        ) {
            self.depth = depth
            self.name = name
            self.namespace = namespace
            self.attributes = attributes
            self.text = text
            self.end = end
        }
    }

    package struct Attribute {
        package var name: Range<Int>
        /// Namespace name; empty for an attribute without a prefix.
        package var namespace: Range<Int>
        package var value: Range<Int>
    }

    /// A stanza's content.
    ///
    /// Behind a pointer, to avoid exclusivity checks: there are dozens of accesses for each message.
    @usableFromInline
    struct Contents {
        @usableFromInline var bytes: [UInt8] = []
        @usableFromInline var elements: [Element] = []
        @usableFromInline var attributes: [Attribute] = []
        @usableFromInline var raw: [UInt8] = []
    }

    /// We own it and free it in `deinit`.
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
    // Not through the array, which would be retained for each access from another module.
    package var elementCount: Int { contents.pointee.elements.count }

    package func element(at index: Int) -> Element { contents.pointee.elements[index] }

    @inlinable package var attributes: [Attribute] {
        get { contents.pointee.attributes }
        _modify { yield &contents.pointee.attributes }
    }
    /// The stanza's bytes exactly as received, from `<` to `>`; empty for a stream header.
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

    package func reset() {
        bytes.removeAll(keepingCapacity: true)
        elements.removeAll(keepingCapacity: true)
        attributes.removeAll(keepingCapacity: true)
        raw.removeAll(keepingCapacity: true)
    }

    package func element(_ index: Int, is name: StaticString, in namespace: StaticString) -> Bool {
        equals(elements[index].name, name) && equals(elements[index].namespace, namespace)
    }

    package func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return bytes.withUnsafeBytes { storage in
            text.withUTF8Buffer { wanted in
                // Only an empty buffer can have no address.
                guard let stored = UnsafeRawBufferPointer(rebasing: storage[range]).baseAddress,
                    let wanted = wanted.baseAddress
                else { return true }
                return memcmp(stored, wanted, range.count) == 0
            }
        }
    }

    /// The value of an attribute without a namespace, if present.
    package func attribute(_ name: StaticString, of index: Int) -> Range<Int>? {
        for position in elements[index].attributes
        where equals(attributes[position].name, name) && attributes[position].namespace.isEmpty {
            return attributes[position].value
        }
        return nil
    }

    /// The first direct child with this name and namespace, if any.
    package func child(_ name: StaticString, in namespace: StaticString, of parent: Int = 0) -> Int? {
        var index = parent + 1
        while index < elements[parent].end {
            if element(index, is: name, in: namespace) { return index }
            index = elements[index].end
        }
        return nil
    }

    package func children(of parent: Int = 0) -> [Int] {
        var result: [Int] = []
        var index = parent + 1
        while index < elements[parent].end {
            result.append(index)
            index = elements[index].end
        }
        return result
    }

    /// Moves the elements of one namespace to another, but not attributes or ``raw``.
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

    /// Whether it is no longer than this, a reference counted as one byte (``StreamLimits/stanzaBytes``).
    package func fits(in limit: Int) -> Bool {
        guard raw.count > limit else { return true }
        var size = StanzaSize()
        raw.withUnsafeBytes { size.add($0) }
        return size.bytes <= limit
    }

    /// The stored bytes as a `String`, for negotiation and errors, not for the hot path.
    package func string(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
}
