/// The stream header before most inputs of this libFuzzer target of `XMLFramer`.
///
/// No input may crash it, and neither how the bytes are cut nor whether plain stanzas bypass libxml2 may change the
/// result. Built together with the module's sources (`run.sh xml`). An input's first byte chooses the cuts and the
/// limits; if its lowest bit is clear, this header is put before the rest, so that most inputs get past it.

private let prologue = Array(
    ("<stream:stream id='s1' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>").utf8
)

/// A framer's result in comparable form.
private struct Outcome: Equatable {
    var transcript: [UInt8] = []
    var code: XMLStreamError.Code?
}

private func fnv(_ bytes: some Sequence<UInt8>, _ hash: inout UInt64) {
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    hash = (hash ^ 0xFFFF) &* 0x100_0000_01B3
}

/// Reads everything that a consumer may read, and checks every range.
private func digest(of stanza: Stanza) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for (index, element) in stanza.elements.enumerated() {
        precondition(element.end > index && element.end <= stanza.elements.count)
        fnv(stanza.bytes[element.name], &hash)
        fnv(stanza.bytes[element.namespace], &hash)
        fnv(stanza.bytes[element.text], &hash)
        for attribute in stanza.attributes[element.attributes] {
            fnv(stanza.bytes[attribute.name], &hash)
            fnv(stanza.bytes[attribute.namespace], &hash)
            fnv(stanza.bytes[attribute.value], &hash)
        }
        fnv([UInt8(truncatingIfNeeded: element.depth), UInt8(truncatingIfNeeded: element.end)], &hash)
    }
    fnv(stanza.raw, &hash)
    return hash
}

/// Where the skipper sees the end of a stanza that libxml2 has read; 0 for nowhere.
private func length(of raw: [UInt8]) -> Int {
    var skipper = StanzaSkipper()
    return raw.withUnsafeBytes { if case .ended(let end) = skipper.read($0) { end } else { 0 } }
}

/// How an input is cut.
private enum Cut {
    case nowhere
    /// Into small pieces, whose sizes follow from a number.
    case often(seed: UInt64)
    /// Once, before the byte at this index: a stanza in two pieces is read without libxml2.
    case once(at: Int)
}

private func run(
    _ input: ArraySlice<UInt8>,
    limits: StreamLimits,
    cut: Cut = .nowhere,
    restarts: Bool,
    plain: Bool = true
) -> Outcome {
    let framer = XMLFramer(limits: limits)
    framer.readsPlainStanzas = plain
    var outcome = Outcome()
    var random: UInt64 = if case .often(let seed) = cut { seed } else { 0 }
    var rest = input
    while let first = rest.first {
        var size = rest.count
        // The header by itself, as servers send it: libxml2 reads whatever follows in its buffer.
        if rest.startIndex == input.startIndex, input.starts(with: prologue) { size = prologue.count }
        switch cut {
        case .nowhere: break
        case .once(let place):
            let left = place - rest.startIndex
            if left > 0 { size = min(size, left) }
        case .often:
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            size = min(size, 1 + Int(random >> 33) % (first == UInt8(ascii: "<") ? 3 : 23))
            if random >> 60 == 0 { framer.releaseMemory() }
        }
        // Memory of exactly that size, so that a read past it is found.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: rest.prefix(size))
        rest = rest.dropFirst(size)
        do throws(XMLStreamError) {
            try framer.feed(UnsafeRawBufferPointer(memory)) { event in
                precondition(framer.unreadBytes >= 0 && framer.unreadBytes < size)
                var hash: UInt64 = 0
                switch event {
                case .opened(let stanza):
                    precondition(stanza.raw.isEmpty && stanza.elements.count == 1)
                    hash = digest(of: stanza)
                case .stanza(let stanza):
                    precondition(stanza.raw.first == UInt8(ascii: "<") && stanza.raw.last == UInt8(ascii: ">"))
                    precondition(stanza.raw.count <= 6 * limits.stanzaBytes)
                    precondition(length(of: stanza.raw) == stanza.raw.count, "a stanza ends elsewhere for the skipper")
                    hash = digest(of: stanza)
                    if restarts, stanza.elements[0].name.count == 1 { framer.reset() }
                case .skipped(let stanza):
                    precondition(stanza.byteCount > 0 && framer.failure == nil)
                    hash = UInt64(stanza.byteCount) &* 8 &+ (stanza.name.isStanza ? 3 : 2)
                case .closed:
                    hash = 1
                }
                withUnsafeBytes(of: hash) { outcome.transcript.append(contentsOf: $0) }
            }
        } catch {
            outcome.code = error.code
        }
    }
    return outcome
}

/// The entry point of libFuzzer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzXMLFramer(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = UnsafeBufferPointer(start: start, count: count)
    guard let control = bytes.first else { return 0 }
    let input = (control & 1 == 0 ? prologue : []) + bytes.dropFirst()
    var limits = StreamLimits()
    if control & 2 != 0 { (limits.stanzaBytes, limits.depth, limits.attributes) = (200, 4, 3) }
    let restarts = control & 4 != 0

    let whole = run(input[...], limits: limits, restarts: restarts)
    let parsed = run(input[...], limits: limits, restarts: restarts, plain: false)
    // The code may differ: how much of a stanza the parser sees at once, and so whether it finds an error before a
    // limit is reached, depends on who read the stanza before it.
    precondition(whole.transcript == parsed.transcript, "the events depend on the reader")
    precondition((whole.code == nil) == (parsed.code == nil), "whether it fails depends on the reader")
    // Behind the header, which is fed by itself.
    let place = input.count - count + 1 + (Int(control) &* 0x9E37 &+ count) % max(count - 1, 1)
    for cut in [Cut.often(seed: UInt64(control) &* 0x9E37_79B9 &+ UInt64(count)), .once(at: place)] {
        let pieces = run(input[...], limits: limits, cut: cut, restarts: restarts)
        precondition(isSame(whole, pieces), "the events depend on the cut")
        // The first of two errors in a stanza may differ if the parser waits for more before it looks.
        precondition(
            (whole.code == nil) == (pieces.code == nil) || isLateError(whole, pieces),
            "the failure depends on the cut"
        )
    }
    return 0
}

/// Whether the events are the same.
///
/// A malformed stanza may be skipped if its start tag proved too wide before libxml2 had seen all of it: the skipper
/// does not look for repeated attributes.
private func isSame(_ whole: Outcome, _ cut: Outcome) -> Bool {
    if whole.transcript == cut.transcript { return true }
    return whole.code == .notWellFormed && cut.transcript.starts(with: whole.transcript)
}

/// Whether one run shows an error that the other has not met yet: the parser waits for more of a tag before it looks.
private func isLateError(_ one: Outcome, _ other: Outcome) -> Bool {
    let code = one.code ?? other.code
    return code == .notWellFormed || code == .entity
}
