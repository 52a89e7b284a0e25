import Testing

@testable import XMLWire

@Suite("A stream gives the same events however it is cut")
struct FramerChunkingTests {
    let whole = record([Corpus.bytes])

    @Test("whole: every stanza comes out, verbatim")
    func wholeStream() {
        #expect(whole.failure == nil)
        #expect(whole.position == .closed)
        #expect(whole.stanzas.map(\.raw) == Corpus.stanzas + Corpus.stanzas)
        #expect(whole.events.first?.elements.first?.name == "stream")
        #expect(whole.events.last == .closed)
    }

    @Test("in pieces of every size from 1 to 97, and larger ones", arguments: Array(1...97) + [512, 4096])
    func pieces(size: Int) {
        #expect(record(Corpus.bytes.pieces(of: size)) == whole)
    }

    @Test("torn in two at every offset")
    func tornInTwo() {
        let bytes = Corpus.once
        let whole = record([bytes[...]])
        for offset in bytes.indices {
            let torn = record([bytes[..<offset], bytes[offset...]])
            guard torn == whole else {
                Issue.record("torn at \(offset)")
                return
            }
        }
    }

    @Test("a truncated stream is told from a finished one at every offset")
    func truncated() {
        let bytes = Corpus.once
        let end = bytes.count - 1
        for offset in bytes.indices.dropFirst() {
            let recording = record([bytes[..<offset]])
            guard recording.failure == nil, (recording.position == .closed) == (offset >= end) else {
                Issue.record("cut off at \(offset): \(recording.position), \(String(describing: recording.failure))")
                return
            }
        }
    }

    @Test("the raw bytes and texts survive a change of the parser at any stanza")
    func parserChange() {
        let body = Array(Corpus.stanzas.joined().utf8)
        let count = 3 * XMLFramer.parserBytes / body.count
        var stream = Array(header.utf8)
        for _ in 0..<count { stream += body }
        let stanzas = record([Array(header.utf8) + body]).stanzas
        for size in [1021, 16 * 1024, stream.count] {
            let recording = record(stream.pieces(of: size))
            #expect(recording.failure == nil)
            #expect(recording.stanzas.count == count * Corpus.stanzas.count)
            for (index, stanza) in recording.stanzas.enumerated() where stanza != stanzas[index % stanzas.count] {
                Issue.record("stanza \(index) differs, pieces of \(size)")
                return
            }
        }
    }
}
