import Testing

@testable import XMLWire

@Suite("The reader of skipped stanzas agrees with libxml2 on where they end")
struct StanzaSkipperTests {
    /// What a skipper makes of one stanza and what follows it.
    private func outcome(_ bytes: [UInt8], pieces size: Int) -> StanzaSkipper.Outcome {
        var skipper = StanzaSkipper()
        var read = 0
        for piece in bytes.pieces(of: size) {
            let outcome = Array(piece).withUnsafeBytes { skipper.read($0) }
            switch outcome {
            case .more: read += piece.count
            case .ended(let end): return .ended(read + end)
            case .failed: return outcome
            }
        }
        return .more
    }

    @Test("every stanza of the corpus ends where it ends, in pieces of every size", arguments: Corpus.stanzas)
    func ends(_ stanza: String) {
        let bytes = Array((stanza + "<next/>").utf8)
        for size in [1, 2, 3, 7, 64, 100_000] {
            #expect(outcome(bytes, pieces: size) == .ended(stanza.utf8.count), "pieces of \(size)")
        }
        for end in 0..<stanza.utf8.count {
            #expect(outcome(Array(bytes[..<end]), pieces: 100_000) == .more, "\(end) bytes")
        }
    }

    @Test("one byte changed, dropped or doubled anywhere: the same verdict as libxml2's, which may wait longer for it")
    func mutations() {
        let stanzas = [
            "<m a='1 > 2' b=\"&#x9;'\" >é&amp;&#65;]]<b/>&lt;<c:d></c:d><![CDATA[<]]]>]]>x</m >",
            "<m><n\n\te = '' f='&quot;'></n ><o/></m>",
        ]
        let replacements = Array("<>/'\"&;]! ax=\u{7F}".utf8) + [0x00, 0x09, 0x80, 0xC3, 0xED, 0xEF, 0xFF]
        var checked = 0
        for stanza in stanzas {
            let bytes = Array(stanza.utf8)
            for index in bytes.indices {
                var mutants = replacements.map { byte in
                    var mutant = bytes
                    mutant[index] = byte
                    return mutant
                }
                mutants.append(Array(bytes[..<index] + bytes[(index + 1)...]))
                mutants.append(Array(bytes[...index] + bytes[index...]))
                for mutant in mutants {
                    checked += compare(mutant) ? 1 : 0
                }
            }
        }
        #expect(checked > 100)
    }

    /// Whether both readers came to the same end of a well-formed stanza; records an issue where they differ.
    private func compare(_ mutant: [UInt8]) -> Bool {
        let framer = XMLFramer()
        var length: Int?
        // No prefix is declared in the stanza itself, so that libxml2 has nothing against its namespaces.
        let declared = header.dropLast() + " xmlns:c='u' xmlns:a='u' xmlns:x='u'>"
        try? framer.feed(Array(declared.utf8) + mutant + Array("<z/>".utf8)) { event in
            switch event {
            case .stanza(let stanza): if length == nil { length = stanza.raw.count }
            case .skipped(let stanza): if length == nil { length = stanza.byteCount }
            case .opened, .closed: break
            }
        }
        guard mutant.first == UInt8(ascii: "<") else { return false }
        switch outcome(mutant + Array("<z/>".utf8), pieces: 5) {
        case .ended(let end):
            // It does not look for an attribute that comes twice, nor which characters a name may have beyond ASCII.
            #expect(length == nil || length == end, "\(String(decoding: mutant, as: UTF8.self))")
            return length == end
        case .more, .failed:
            #expect(length == nil, "\(String(decoding: mutant, as: UTF8.self))")
            return false
        }
    }

    @Test("memory stays below twice what was read, and names of any length are compared")
    func memory() {
        let deep = String(repeating: "<a>", count: 80_000) + String(repeating: "</a>", count: 80_000)
        let long = String(repeating: "n", count: 100_000)
        for text in [deep, "<\(long)><\(long)></\(long)></\(long)>"] {
            var skipper = StanzaSkipper()
            var most = 0
            var last = StanzaSkipper.Outcome.more
            for piece in Array(text.utf8).pieces(of: 1000) {
                last = Array(piece).withUnsafeBytes { skipper.read($0) }
                most = max(most, skipper.capacity)
            }
            guard case .ended = last else {
                Issue.record("\(last)")
                continue
            }
            #expect(most < 2 * text.utf8.count)
        }
        #expect(outcome(Array("<\(long)></\(long)n>".utf8), pieces: 10) == .failed(.notWellFormed))
        #expect(outcome(Array("<\(long)></\(long.dropLast())>".utf8), pieces: 10) == .failed(.notWellFormed))
    }
}
