extension XMLFramer {
    struct Skipping {
        var skipper = StanzaSkipper()
        var size = StanzaSize()
        var byteCount = 0

        /// Reads the next bytes as ``StanzaSkipper/read(_:)`` does, and measures them.
        mutating func read(_ bytes: UnsafeRawBufferPointer) -> StanzaSkipper.Outcome {
            let outcome = skipper.read(bytes)
            let length = if case .ended(let end) = outcome { end } else { bytes.count }
            size.add(UnsafeRawBufferPointer(rebasing: bytes[..<length]))
            byteCount += length
            return outcome
        }
    }

    /// The unfinished stanza's name; nil outside stanzas.
    var unfinishedName: StanzaName? {
        guard position == .stanza else { return nil }
        if let skipping { return skipping.skipper.name }
        var start = Array(builder.pointee.raw.prefix(StanzaName.sufficientBytes))
        if start.count < StanzaName.sufficientBytes, window.unfinishedStart < window.slice.count {
            start += window.slice[window.unfinishedStart...].prefix(StanzaName.sufficientBytes)
        }
        return StanzaName(startTag: start)
    }

    /// Skips the stanza that the parser was reading, from its first byte on; returns what remains of the buffer.
    func beginSkipping(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        giveUpParser()
        var begun = Skipping()
        let outcome = builder.pointee.raw.withUnsafeBytes { begun.read($0) }
        builder.pointee.reset(keepingStorage: false)
        skipping = begun
        guard machine.pointee.skippingBegan(with: outcome) == .more else { return rest }
        return skip(rest, from: window.unfinishedStart)
    }

    func skip(_ rest: UnsafeRawBufferPointer, from start: Int) -> UnsafeRawBufferPointer {
        let end = UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        guard let outcome = skipping?.read(UnsafeRawBufferPointer(rebasing: rest[start...])), let skipping else {
            return end
        }
        switch machine.pointee.skipped(outcome, size: skipping.size.bytes, start: start) {
        case .more, .fail: return end
        case .deliver(let reason): return deliver(skipping, reason, rest)
        }
    }

    /// Hands a skipped stanza over, and returns the rest of the buffer.
    private func deliver(
        _ ended: Skipping,
        _ reason: SkippedStanza.Reason,
        _ rest: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        skipping = nil
        sink?(.skipped(SkippedStanza(reason: reason, name: ended.skipper.name, byteCount: ended.byteCount)))
        switch machine.pointee.skippedStanzaHandled() {
        case .readOn(let end):
            return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .beginDocument(let end):
            forgetDocument()
            return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .finish:
            return UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        }
    }
}
