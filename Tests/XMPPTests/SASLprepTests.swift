import Testing

@testable import XMPP

/// The prepared form of names and passwords (RFC 4013), compared with its examples and with Python's `stringprep`.
@Suite struct SASLprepTests {
    private static func outcome(_ scalars: [UInt32]) -> Result<String, SASLprep.Failure> {
        let text = String(String.UnicodeScalarView(scalars.compactMap(Unicode.Scalar.init)))
        return Result { () throws(SASLprep.Failure) in
            String(decoding: try SASLprep.prepare(Array(text.utf8)), as: UTF8.self)
        }
    }

    private static func scalars(_ outcome: Result<String, SASLprep.Failure>) -> [UInt32]? {
        (try? outcome.get()).map { $0.unicodeScalars.map(\.value) }
    }

    @Test(
        "the examples of RFC 4013 section 3, and more of each rule",
        arguments: [
            ([0x49, 0xad, 0x58], [0x49, 0x58]), ([0x75, 0x73, 0x65, 0x72], [0x75, 0x73, 0x65, 0x72]),
            ([0x55, 0x53, 0x45, 0x52], [0x55, 0x53, 0x45, 0x52]), ([0xaa], [0x61]), ([0x2168], [0x49, 0x58]),
            // Spaces of other kinds become the ASCII one, the zero-width space too.
            ([0x61, 0xa0, 0x3000, 0x200b, 0x62], [0x61, 0x20, 0x20, 0x20, 0x62]),
            // Composed, and compatibility forms resolved.
            ([0x65, 0x301], [0xe9]), ([0x212b], [0xc5]), ([0xfb01], [0x66, 0x69]), ([0xff21], [0x41]),
            ([0x20, 0x7e], [0x20, 0x7e]),
            // Right to left from end to end.
            ([0x627, 0x31, 0x628], [0x627, 0x31, 0x628]),
        ] as [([UInt32], [UInt32])]
    )
    func examples(_ input: [UInt32], _ expected: [UInt32]) {
        #expect(Self.scalars(Self.outcome(input)) == expected)
    }

    @Test(
        "what has no prepared form, and why",
        arguments: [
            ([0x07], .prohibited), ([0x627, 0x31], .mixedDirections), ([0x627, 0x61, 0x628], .mixedDirections),
            ([0x61, 0x627], .mixedDirections), ([0x61, 0x0a], .prohibited), ([0xe000], .prohibited),
            ([0xfffd], .prohibited), ([0x200e], .prohibited), ([0xe0041], .prohibited), ([0xfffe], .prohibited),
            ([0x1f600], .unassigned), ([0x221], .unassigned), ([], .empty), ([0xad], .empty),
            ([0x200c, 0xfe0f], .empty),
        ] as [([UInt32], SASLprep.Failure)]
    )
    func refused(_ input: [UInt32], _ expected: SASLprep.Failure) {
        #expect(Self.outcome(input) == .failure(expected))
    }

    @Test("bytes that are not UTF-8 are refused, not replaced")
    func notUTF8() {
        for bytes in [[0xff], [0xc3], [0x61, 0xed, 0xa0, 0x80], [0xc0, 0xaf]] as [[UInt8]] {
            #expect(throws: SASLprep.Failure.notUTF8) { try SASLprep.prepare(bytes) }
        }
    }

    @Test("a prepared text is its own prepared form")
    func idempotent() throws {
        var random = SeededGenerator(state: 4_013)
        for _ in 0..<2_000 {
            let input = (0..<Int.random(in: 1...6, using: &random)).map { _ in Self.scalar(&random) }
            guard case .success(let text) = Self.outcome(input) else { continue }
            #expect(try SASLprep.prepare(Array(text.utf8)) == Array(text.utf8), "\(input)")
        }
    }

    private static func scalar(_ random: inout SeededGenerator) -> UInt32 {
        switch UInt8.random(in: 0..<8, using: &random) {
        case 0...2: UInt32.random(in: 0x20...0x7e, using: &random)
        case 3: UInt32.random(in: 0xa0...0x24f, using: &random)
        case 4: UInt32.random(in: 0x300...0x36f, using: &random)
        case 5: UInt32.random(in: 0x5d0...0x64a, using: &random)
        case 6: UInt32.random(in: 0x1100...0x30ff, using: &random)
        default: UInt32.random(in: 0xf900...0xffff, using: &random)
        }
    }

    /// RFC 4013 by Python's tables of Unicode 3.2.
    private static let reference = """
        import stringprep as s, sys
        from unicodedata import ucd_3_2_0 as u
        forbidden = [s.in_table_c12, s.in_table_c21_c22, s.in_table_c3, s.in_table_c4, s.in_table_c5, s.in_table_c6,
                     s.in_table_c7, s.in_table_c8, s.in_table_c9]
        def prepare(text):
            text = ''.join(' ' if s.in_table_c12(c) else '' if s.in_table_b1(c) else c for c in text)
            if any(s.in_table_a1(c) for c in text): return None
            text = u.normalize('NFKC', text)
            if not text or any(f(c) for c in text for f in forbidden): return None
            if any(map(s.in_table_d1, text)):
                if not (s.in_table_d1(text[0]) and s.in_table_d1(text[-1])) or any(map(s.in_table_d2, text)): return None
            return text
        for line in sys.stdin:
            text = prepare(''.join(chr(int(x, 16)) for x in line.split()))
            print('-' if text is None else ' '.join('%x' % ord(c) for c in text))
        """

    @Test("every character of the basic plane, some beyond, and texts of several: as Python's stringprep has them")
    func reference() throws {
        // Five ideographs whose compatibility form was corrected after Unicode 3.2 (Corrigendum 4).
        let corrected: Set<UInt32> = [0x2f868, 0x2f874, 0x2f91f, 0x2f95f, 0x2f9bf]
        var inputs = (Array(0x01...0xd7ff) + Array(0xe000...0xffff)).map { [UInt32($0)] }
        inputs += (Array(0x1d000...0x1d7ff) + Array(0x2f800...0x2fa1f) + Array(0xe0000...0xe007f)).map { [UInt32($0)] }
        inputs.removeAll { corrected.contains($0[0]) }
        var random = SeededGenerator(state: 3_454)
        for _ in 0..<20_000 {
            inputs.append((0..<Int.random(in: 2...6, using: &random)).map { _ in Self.scalar(&random) })
        }
        let lines = inputs.map { input in input.map { String($0, radix: 16) }.joined(separator: " ") }
        let answers = try python(Self.reference, lines)
        try #require(answers.count == inputs.count)
        var wrong: [String] = []
        for (line, (input, answer)) in zip(lines, zip(inputs, answers)) {
            let ours = Self.scalars(Self.outcome(input))?.map { String($0, radix: 16) }.joined(separator: " ") ?? "-"
            if ours != answer { wrong.append("\(line): \(ours) instead of \(answer)") }
        }
        #expect(wrong.isEmpty, "\(wrong.count): \(wrong.prefix(20))")
    }

    @Test("SCRAM hashes the prepared password, and one without a prepared form is never sent")
    func inSCRAM() throws {
        func begin(_ secret: [UInt8], user: String = "user") throws -> NegotiationError? {
            let settings = StreamSettings(senderID: user, domain: "example.org", dialect: .xmpp)
            var negotiation = Negotiation(settings, secret: Secret(secret), idPrefix: "r4nd", nonce: Array(0..<18))
            _ = negotiation.transportReady(encrypted: true)
            _ = negotiation.opened(try header(streamHeader))
            let features = try stanza(
                "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-1</mechanism>"
                    + "</mechanisms></stream:features>"
            )
            if case .fail(let error) = negotiation.stanza(features, trailingBytes: 0) { return error }
            return nil
        }
        #expect(try begin(Array("pen\u{301}cil".utf8)) == nil)
        for (error, words) in [
            (try begin([0x70, 0xff]), "`secret_file`"), (try begin(Array("pencil\u{7}".utf8)), "`secret_file`"),
            (try begin(Array("pencil".utf8), user: "us\u{7}er"), "`sender_id`"),
        ] {
            let error = try #require(error)
            #expect(error.code == .credentialsUnusable && error.code.isAuthentication)
            #expect(error.message.contains(words) && !error.message.contains("pencil"), "\(error.message)")
        }
        let credentials = SASLCredentials(username: "user", secret: Secret(Array("I\u{ad}X".utf8)))
        #expect(try credentials.prepared().secret.bytes == Array("IX".utf8))
    }
}
