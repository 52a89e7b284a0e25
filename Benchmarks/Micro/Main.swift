import CCSEmulator
import Glibc
import XMLWire

/// Micro-benchmarks of the hot paths: `swift run -c release Micro [ROUNDS]`, 40 rounds of 10,000 stanzas by default.
///
/// `Micro receive ROUNDS [FORM]` runs only the ``ReceivePath`` (framer, codec, digests), `Micro frame ROUNDS [FORM]`
/// only its framer; a round is 2,000 messages, and FORM a single wrapping, such as `entities`, instead of all in turn.
/// Prints processor time. On a busy machine compare instructions instead: `scripts/count-instructions`.
@main
enum Micro {
    /// Processor time of this process, in seconds.
    static var processorTime: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// Resident memory of this process, in bytes.
    static var residentBytes: Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let fields = String(decoding: line.map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(getpagesize()) : 0
    }

    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        if let path = arguments.first, path == "receive" || path == "frame" {
            let options = Array(arguments.dropFirst())
            let forms = EnvelopeForm.allCases.filter { options.count < 2 || "\($0)" == options[1] }
            guard !forms.isEmpty else {
                print("unknown form; one of", EnvelopeForm.allCases.map { "\($0)" }.joined(separator: ", "))
                exit(64)
            }
            return try receive(
                rounds: options.first.flatMap { Int($0) } ?? 100,
                forms: forms,
                isDecoding: path == "receive"
            )
        }
        let rounds = arguments.first.flatMap { Int($0) } ?? 40
        for pieceBytes in [600, 16 * 1024] {
            try framing(pieceBytes: pieceBytes, quote: "&quot;", rounds: rounds)
            try framing(pieceBytes: pieceBytes, quote: "\"", rounds: rounds)
        }
        try idleFramers()
    }

    private static func receive(rounds: Int, forms: [EnvelopeForm], isDecoding: Bool) throws {
        let path = ReceivePath(forms: forms)
        let start = processorTime
        let (count, checksum) = try path.run(rounds: rounds, isDecoding: isDecoding)
        let each = (processorTime - start) / Double(max(count, 1)) * 1e6
        print("\(isDecoding ? "receive" : "frame"): \(count) messages, \(each) us a message, checksum \(checksum)")
    }

    private static let header =
        "<stream:stream from='a.example' id='1' version='1.0' xmlns='jabber:client' "
        + "xmlns:stream='http://etherx.jabber.org/streams'>"

    /// An upstream message as a server writes it: three elements and 635 bytes.
    ///
    /// - Parameter quote: The form of the JSON's quotation marks: `&quot;` from standard servers, verbatim from CCS.
    /// - Returns: The stanza's text.
    private static func stanza(quote: String) -> String {
        let start =
            "<message to='1234567890@fcm.example' from='devices@gcm.googleapis.com' type='normal'>"
            + "<gcm xmlns='google:mobile:data'>{&quot;category&quot;:&quot;com.example.app&quot;,&quot;message_id&quot;:"
            + "&quot;000001&quot;,&quot;data&quot;:{&quot;text&quot;:&quot;"
        let end = "&quot;}}</gcm><delay xmlns='urn:xmpp:delay'/></message>"
        let parts = [start, end].map {
            $0.split(separator: "&quot;", omittingEmptySubsequences: false).joined(separator: quote)
        }
        return parts[0] + String(repeating: "x", count: 635 - parts[0].utf8.count - parts[1].utf8.count) + parts[1]
    }

    private static func framing(pieceBytes: Int, quote: String, rounds: Int) throws {
        let stanza = stanza(quote: quote)
        var stream = Array(header.utf8)
        for _ in 0..<10_000 { stream += Array(stanza.utf8) }
        let framer = XMLFramer()
        var stanzas = 0
        var bytes = 0
        let start = processorTime
        for round in 0..<rounds {
            var offset = round == 0 ? 0 : header.utf8.count
            while offset < stream.count {
                let end = min(offset + pieceBytes, stream.count)
                try stream[offset..<end].withUnsafeBytes { piece in
                    try framer.feed(piece) { event in
                        guard case .stanza(let stanza) = event else { return }
                        stanzas += 1
                        bytes += stanza.raw.count + stanza.elements[1].text.count
                    }
                }
                offset = end
            }
        }
        let seconds = processorTime - start
        let each = seconds / Double(stanzas) * 1e6
        print(
            "frame, pieces of \(pieceBytes), quotes as \(quote): \(each) us a stanza, "
                + "\(Int(Double(stanzas) / seconds)) stanzas/s,",
            bytes
        )
    }

    private static func idleFramers() throws {
        let count = 2000
        let stanza = stanza(quote: "&quot;")
        for released in [true, false] {
            var framers: [XMLFramer] = []
            framers.reserveCapacity(count)
            let before = residentBytes
            for _ in 0..<count {
                let framer = XMLFramer()
                try Array((header + stanza).utf8).withUnsafeBytes { try framer.feed($0) { _ in } }
                if released { framer.releaseMemory() }
                framers.append(framer)
            }
            print(
                released ? "idle framer, released:" : "framer with its parser:",
                (residentBytes - before) / count,
                "B"
            )
        }
    }
}
