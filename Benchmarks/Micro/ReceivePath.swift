import CCSEmulator
import NIOCore
import Vocabulary
import XMLWire
import XMPP

/// The receive path from plaintext to a batch's content: framer, codec and digests, over a fixed input.
///
/// The input is a pure function of this file and the emulator's generator, so under callgrind two runs of one program
/// count the same instructions; a round's cost is the difference of two runs with different numbers of rounds.
struct ReceivePath {
    /// Distinct messages, as `bench` sends them: 400 bytes of JSON, every wrapping, a thousand devices.
    static let messages = 2000
    /// The most bytes that one read of the socket brings.
    private static let pieceBytes = 16 * 1024
    /// Messages held before they are released, about a batch.
    private static let batch = 240

    /// The stanzas in a row.
    private let stream: [UInt8]
    private let settings = StreamSettings(
        senderID: "1234567890",
        domain: "fcm.googleapis.com",
        trustedFrom: ["devices@gcm.googleapis.com"]
    )

    /// Makes the input.
    ///
    /// - Parameter forms: The wrappings, used in turn.
    init(forms: [EnvelopeForm] = EnvelopeForm.allCases) {
        var profile = LoadProfile(count: Self.messages)
        profile.forms = forms
        profile.idPrefix = "bench"
        let address = StanzaAddress(from: "devices@gcm.googleapis.com", to: "1234567890@fcm.googleapis.com")
        let generator = LoadGenerator(profile: profile, address: address)
        var buffer = ByteBuffer()
        for sequence in 0..<Self.messages { generator.append(sequence, to: &buffer) }
        stream = Array(buffer.readableBytesView)
    }

    /// Reads the input repeatedly, as one stream.
    ///
    /// - Parameters:
    ///   - rounds: The number of repetitions.
    ///   - isDecoding: Whether to decode stanzas; else they are only framed.
    /// - Returns: The number of messages or stanzas, and a checksum of the results.
    /// - Throws: `XMLStreamError` if the input is invalid, which is a bug in this file.
    func run(rounds: Int, isDecoding: Bool) throws -> (count: Int, checksum: UInt64) {
        let framer = XMLFramer()
        var codec = UpstreamCodec(settings)
        let header =
            "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
        try Array(header.utf8).withUnsafeBytes { try framer.feed($0) { _ in } }
        var batch: [IncomingMessage] = []
        batch.reserveCapacity(Self.batch)
        var count = 0
        var checksum: UInt64 = 0
        try stream.withUnsafeBytes { bytes in
            for _ in 0..<rounds {
                var offset = 0
                while offset < bytes.count {
                    let end = min(offset + Self.pieceBytes, bytes.count)
                    try framer.feed(UnsafeRawBufferPointer(rebasing: bytes[offset..<end])) { event in
                        guard case .stanza(let stanza) = event else { return }
                        count += 1
                        guard isDecoding else {
                            checksum &+= UInt64(stanza.raw.count)
                            return
                        }
                        let following = framer.unreadBytes
                        let decoded = codec.decode(stanza, receivedAt: 0, parsedAt: 0, following: following)
                        guard case .message(let message) = decoded else { return }
                        checksum &+= message.messageKey.low ^ message.fingerprint.low ^ message.deviceKey.low
                        batch.append(message)
                        if batch.count == Self.batch { batch.removeAll(keepingCapacity: true) }
                    }
                    offset = end
                }
            }
        }
        return (count, checksum)
    }
}
