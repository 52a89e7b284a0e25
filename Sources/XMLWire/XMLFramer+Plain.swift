extension XMLFramer {
    /// A stanza waits for the next buffer if this one has fewer bytes of it.
    private static let splitBytes = 4 * 1024

    /// Reads the stanza at the start of `rest`, and returns what follows; nil if the parser must read it.
    ///
    /// A stanza that is plain so far but continues after the buffer is kept for ``readSplitStanza(_:)``: the last of
    /// each read of a busy connection is such, and a parser made for it costs as much as several stanzas.
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

    /// Reads a stanza that began in the previous buffer; nil if the parser must, which was given the waiting bytes.
    ///
    /// At most once for each: input in small pieces is the parser's, which reads each byte once.
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
