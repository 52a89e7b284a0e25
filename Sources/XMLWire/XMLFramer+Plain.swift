/// Stanzas that need no libxml2.
extension XMLFramer {
    /// A stanza that begins with so many bytes at the end of a buffer waits for the next one.
    private static let splitBytes = 4 * 1024

    /// Reads the stanza that `rest` begins with, where a ``PlainStanzaReader`` can.
    ///
    /// One that is of the ordinary form as far as it goes, and goes on behind the buffer, is kept for ``readSplitStanza(_:)``:
    /// of each read of a busy connection the last stanza is such a one, and a parser made for it costs as much as several
    /// stanzas.
    ///
    /// - Returns: What remains of the buffer; nil where the parser has to read the stanza, from its first byte.
    func readPlainStanza(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard readsPlainStanzas, let plainNamespace else { return nil }
        let end: Int
        do throws(PlainStanzaReader.Refusal) {
            end = try builder.pointee.readPlain(rest, limits: limits, inherited: plainNamespace)
        } catch {
            guard error == .unfinished, rest.count < min(Self.splitBytes, limits.stanzaBytes) else { return nil }
            builder.pointee.keepRaw(rest)
            held.waitsForRest = true
            return UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        }
        return deliverPlainStanza(endingAt: end, in: rest)
    }

    /// Reads the stanza that the buffer before ended with, and that goes on in `rest`.
    ///
    /// At most once for each: what comes in small pieces is the parser's, which reads each byte once.
    ///
    /// - Returns: What remains of the buffer; nil where the parser has to read the stanza. It has been given what waited.
    func readSplitStanza(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        held.waitsForRest = false
        if let plainNamespace {
            let more = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.splitBytes))
            let end = try? builder.pointee.readPlain(followedBy: more, limits: limits, inherited: plainNamespace)
            if let end { return deliverPlainStanza(endingAt: end, in: rest) }
        }
        guard let parser = readyParser() else { return rest }
        // No stanza ends in them, else the reader would have found its end.
        held.count = builder.pointee.raw.count
        parseHeldBytes(with: parser)
        return nil
    }

    private func deliverPlainStanza(endingAt end: Int, in rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        // Never over the limit: no more was read.
        guard machine.pointee.stanzaEnded(at: end, size: 0) == .deliver else { return rest }
        sink?(.stanza(builder.pointee.exchangeContents()))
        takeBackContents()
        switch machine.pointee.eventHandled() {
        case .readOn(let end): return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .stopParser: return leaveParser(isWellFormed: true, rest)
        }
    }
}
