/// Stanzas that need no libxml2.
extension XMLFramer {
    /// Reads the stanza that `rest` begins with, where a ``PlainStanzaReader`` can.
    ///
    /// - Returns: What remains of the buffer; nil where the parser has to read the stanza, from its first byte.
    func readPlainStanza(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard readsPlainStanzas, let plainNamespace,
            let end = builder.pointee.readPlain(rest, limits: limits, inherited: plainNamespace)
        else { return nil }
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
