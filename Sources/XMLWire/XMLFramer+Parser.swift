/// The parser's lifetime, and the bytes that wait for it.
extension XMLFramer {
    /// The last bytes of the unfinished stanza that the parser has not been given.
    struct HeldBytes {
        /// The token whose bytes are held back.
        var token: UnfinishedToken?
        var count = 0
        /// Whether all of the stanza waits, for ``XMLFramer/readSplitStanza(_:)``.
        var waitsForRest = false
        /// The bytes that the parser has scanned, counting repeated scans; for tests.
        var bytesLookedAt = 0
    }

    /// The current parser, or a new one that has read the stream's start tag.
    func readyParser() -> PushParser? {
        if let parser { return parser }
        guard let parser = PushParser(for: self) else {
            machine.pointee.fail(XMLStreamError(.parserUnavailable))
            return nil
        }
        self.parser = parser
        window.base = 0
        guard machine.pointee.parserMade() else { return parser }
        header.withUnsafeBytes { parser.parse($0) }
        machine.pointee.headerReplayed()
        window.base = header.count
        return parser
    }

    /// Frees the parser and drops the bytes that waited for it.
    func giveUpParser() {
        parser = nil
        held = HeldBytes(bytesLookedAt: held.bytesLookedAt)
        window.slice = UnsafeRawBufferPointer(start: nil, count: 0)
    }

    func forgetDocument() {
        giveUpParser()
        skipping = nil
        builder.pointee.reset()
        header.removeAll()
        plainNamespace = nil
    }

    /// Whether the slice's bytes can wait; if not, the parser has been given those that waited.
    func holdsBackSlice(from parser: PushParser) -> Bool {
        let bytes = window.slice
        let pendingBytes = window.base - parser.position
        held.bytesLookedAt += pendingBytes + bytes.count
        guard position == .stanza, pendingBytes >= UnfinishedToken.shortBytes else { return false }
        if held.token == nil {
            let isSection = parser.isInSection
            held.token = builder.pointee.raw.suffix(pendingBytes).withUnsafeBytes {
                UnfinishedToken($0, isSection: isSection)
            }
        }
        let mayEnd = held.token?.mayEnd(in: bytes) ?? true
        if let values = held.token?.values, values > limits.attributes + limits.namespaces {
            // libxml2 compares each attribute of a tag with each other.
            if machine.pointee.reject(.attributes) == .stopParser { parser.stop() }
            return false
        }
        if !mayEnd, held.count + bytes.count < pendingBytes / 4 {
            held.count += bytes.count
            held.bytesLookedAt -= pendingBytes
            return true
        }
        held.token = nil
        parseHeldBytes(with: parser)
        return false
    }

    func parseHeldBytes(with parser: PushParser) {
        guard held.count > 0 else { return }
        // A copy, because callbacks write to the builder.
        let bytes = Array(builder.pointee.raw.suffix(held.count))
        held.count = 0
        let next = window.slice
        // Nothing ends in held-back bytes, so no place in them is asked for.
        window.slice = UnsafeRawBufferPointer(start: nil, count: 0)
        bytes.withUnsafeBytes { parser.parse($0) }
        window.base += bytes.count
        window.slice = next
    }
}
