/// Stanzas that are read to their end and handed to nobody.
extension XMLFramer {
    /// A stanza that is being skipped.
    struct Skipping {
        let reason: SkippedStanza.Reason
        var skipper = StanzaSkipper()
        var size = StanzaSize()
        var byteCount = 0
    }

    /// What the unfinished stanza is; nil outside of stanzas.
    var unfinishedName: StanzaName? {
        guard position == .stanza else { return nil }
        if let skipping { return skipping.skipper.name }
        var start = Array(builder.pointee.raw.prefix(StanzaName.sufficientBytes))
        if start.count < StanzaName.sufficientBytes, unfinishedStart < slice.count {
            start += slice[unfinishedStart...].prefix(StanzaName.sufficientBytes)
        }
        return StanzaName(startTag: start)
    }

    /// Skips the stanza that the parser was in the middle of, from its first byte on.
    ///
    /// - Returns: What remains of `rest`, the buffer from the start of `slice` on.
    func beginSkipping(_ reason: SkippedStanza.Reason, _ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        skipReason = nil
        isListening = true
        giveUpParser()
        var begun = Skipping(reason: reason)
        let outcome = builder.pointee.raw.withUnsafeBytes { begun.read($0) }
        builder.pointee.reset(keepingStorage: false)
        skipping = begun
        switch outcome {
        case .more: return skip(rest, from: unfinishedStart)
        // It has gone on behind its end, which no stanza does that is well-formed.
        case .ended: record(XMLStreamError(.notWellFormed))
        case .failed(let code): record(XMLStreamError(code))
        }
        return rest
    }

    /// Reads on from `start`, and returns what remains of the buffer.
    func skip(_ rest: UnsafeRawBufferPointer, from start: Int) -> UnsafeRawBufferPointer {
        let bytes = UnsafeRawBufferPointer(rebasing: rest[start...])
        let limit = limits.stanzaBytes
        switch skipping?.read(bytes) {
        case .failed(let code)?:
            record(XMLStreamError(code))
        case .ended(let end)?:
            guard let ended = skipping, ended.size.bytes <= limit else {
                record(XMLStreamError(.limit(.stanzaBytes)))
                break
            }
            finishSkipping(ended, end: start + end)
            return UnsafeRawBufferPointer(rebasing: rest[(start + end)...])
        case .more?, nil:
            if skipping?.size.bytes ?? 0 >= limit { record(XMLStreamError(.limit(.stanzaBytes))) }
        }
        return UnsafeRawBufferPointer(rebasing: rest[rest.count...])
    }

    private func finishSkipping(_ ended: Skipping, end: Int) {
        skipping = nil
        position = .betweenStanzas
        eventEnd = end
        sink?(
            .skipped(SkippedStanza(reason: ended.reason, name: ended.skipper.name, byteCount: ended.byteCount))
        )
        eventEnd = 0
        carryOutRequest()
    }
}

extension XMLFramer.Skipping {
    /// Reads what comes next, as ``StanzaSkipper/read(_:)`` does, and measures it.
    mutating func read(_ bytes: UnsafeRawBufferPointer) -> StanzaSkipper.Outcome {
        let outcome = skipper.read(bytes)
        let length = if case .ended(let end) = outcome { end } else { bytes.count }
        size.add(UnsafeRawBufferPointer(rebasing: bytes[..<length]))
        byteCount += length
        return outcome
    }
}
