import Testing

@testable import XMLWire

/// The plain reader copies 16 bytes at a time.
@Suite("What the plain reader copies is what a look at each byte by itself allows")
struct PlainBlockTests {
    /// Where characters may stand.
    enum Form: CaseIterable, Sendable {
        case text
        case section
        case value

        var opening: String {
            switch self {
            case .text: "<a>"
            case .section: "<a><![CDATA["
            case .value: "<a b='"
            }
        }

        var closing: String {
            switch self {
            case .text: "</a>"
            case .section: "]]></a>"
            case .value: "'/>"
            }
        }

        /// Whether the plain reader takes a byte, which stands between others that it takes.
        func takes(_ byte: UInt8, behind before: some Collection<UInt8>) -> Bool {
            switch byte {
            case 0x09, 0x0A: self != .value
            case ..<0x20, 0x80...: false
            case UInt8(ascii: "<"), UInt8(ascii: "&"): self == .section
            case UInt8(ascii: ">"): self == .value || !before.suffix(2).elementsEqual("]]".utf8)
            case UInt8(ascii: "'"): self != .value
            default: true
            }
        }
    }

    /// The characters that are read from a stanza; nil where it is left to libxml2.
    private func read(_ stanza: [UInt8]) -> [UInt8]? {
        // Memory of just that size, so that the address sanitizer finds a read past it.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: stanza.count, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: stanza)
        var builder = StanzaBuilder(limits: StreamLimits())
        let end = try? builder.readPlain(UnsafeRawBufferPointer(memory), inherited: [])
        guard end == stanza.count else { return nil }
        let read = builder.exchangeContents()
        return Array(read.bytes[read.attributes.first?.value ?? read.elements[0].text])
    }

    @Test("each byte at each place of 64 is taken as it is, or left to libxml2", arguments: Form.allCases)
    func everyByte(form: Form) {
        var wrong: Set<UInt8> = []
        // `>` ends a section behind two brackets, and is not allowed there in text.
        for neighbour in [UInt8(ascii: "x"), UInt8(ascii: "]")] {
            for offset in 0..<48 {
                for byte in UInt8.min...UInt8.max {
                    var inside = [UInt8](repeating: neighbour, count: 64)
                    inside[offset] = byte
                    let isTaken = form.takes(byte, behind: inside[..<offset])
                    let found = read(Array(form.opening.utf8) + inside + Array(form.closing.utf8))
                    if found != (isTaken ? inside : nil) { wrong.insert(byte) }
                }
            }
        }
        #expect(wrong.sorted() == [])
    }
}
