import CCSEmulator
import Digests
import NIOCore
import UpstreamKit
import Vocabulary

/// The stanzas of a server, by a message's number: what is the same in all of them is written once.
struct MessageText {
    /// The digits of a message's number in its id.
    static let digits = 10

    private static let start = Array(#"<message id=""><gcm xmlns="google:mobile:data">"#.utf8)
    private static let id = Array(#"{"message_id":"m-"#.utf8)
    private static let device = Array(#"","from":"device-"#.utf8)
    private static let category = Array(#"","category":"category-"#.utf8)
    private static let oddCategory = Array(#"","category":["category-"#.utf8)
    private static let data = Array(#"","data":{"number":""#.utf8)
    private static let oddData = Array(#""],"data":{"number":""#.utf8)
    private static let otherData = Array(#"","data":{"other":""#.utf8)
    private static let close = Array(#""}}"#.utf8)
    private static let end = Array("</gcm></message>".utf8)
    private static let standardEnd = Array("</json><request xmlns='urn:xmpp:receipts'/>".utf8)

    /// How many devices send in turn.
    let devices: Int
    let categories: Int

    /// Of every so many messages one has no category, or is refused by the database for its content: it belongs in
    /// quarantine, and is acked; 0 for none.
    let (malformedEvery, refusedEvery): (Int, Int)
    /// Whether they come through a standard server, from its accounts, and ask for receipts (XEP-0184).
    let isStandard: Bool

    func device(of number: Int) -> Int { number % devices }

    /// Whether it goes to the handler that gets a device's messages in order.
    func isOrdered(_ number: Int) -> Bool {
        !isOdd(number) && Handlers.kinds.contains { $0.ordering == .device && $0.category == number % categories }
    }

    /// Whether a message belongs in quarantine.
    func isOdd(_ number: Int) -> Bool { isMalformed(number) || isRefused(number) }

    private func isMalformed(_ number: Int) -> Bool { Self.isLast(number, of: malformedEvery) }

    private static func isLast(_ number: Int, of count: Int) -> Bool { count > 0 && number % count == count - 1 }

    /// Whether the database refuses a message's row.
    func isRefused(_ number: Int) -> Bool { !isMalformed(number) && Self.isLast(number, of: refusedEvery) }

    /// Appends a message's stanza, or one with the same id and other content; a standard server's may add a note.
    func append(_ number: Int, isOther: Bool = false, note: String = "", to buffer: inout ByteBuffer) {
        guard isStandard else {
            buffer.writeBytes(Self.start)
            appendPayload(number, isOther: isOther, to: &buffer)
            buffer.writeBytes(Self.end)
            return
        }
        buffer.writeString("<message from='\(address(of: number))/1' id='m-")
        Self.append(number, digits: Self.digits, to: &buffer)
        buffer.writeString("'><json xmlns='urn:xmpp:json:0'>")
        appendPayload(number, isOther: isOther, to: &buffer)
        buffer.writeBytes(Self.standardEnd)
        buffer.writeString(note + "</message>")
    }

    private func address(of number: Int) -> String { "device-\(device(of: number))@\(Account.domain)" }

    /// The digest of a message's payload, by which quarantine knows it.
    func payloadDigest(_ number: Int) -> [UInt8] {
        let sender = isStandard ? address(of: number) : ""
        var buffer = ByteBuffer(string: sender)
        appendPayload(number, isOther: false, to: &buffer)
        var digest = SHA256()
        digest.update(bigEndian: UInt64(sender.utf8.count))
        buffer.withUnsafeReadableBytes { digest.update($0) }
        return digest.finish()
    }

    private func appendPayload(_ number: Int, isOther: Bool, to buffer: inout ByteBuffer) {
        let isMalformed = isMalformed(number)
        buffer.writeBytes(Self.id)
        Self.append(number, digits: Self.digits, to: &buffer)
        buffer.writeBytes(Self.device)
        Self.append(device(of: number), digits: 4, to: &buffer)
        buffer.writeBytes(isMalformed ? Self.oddCategory : Self.category)
        Self.append(number % categories, digits: 1, to: &buffer)
        buffer.writeBytes(isMalformed ? Self.oddData : isOther && !isOdd(number) ? Self.otherData : Self.data)
        Self.append(number, digits: Self.digits, to: &buffer)
        buffer.writeBytes(Self.close)
    }

    private static func append(_ number: Int, digits: Int, to buffer: inout ByteBuffer) {
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: digits) { target in
            Decimal.write(number, width: digits, into: target, at: 0)
            return digits
        }
    }

    /// The message's key, as docs/protocol.md defines it.
    static func key(_ number: Int, of sender: String) -> Digest128 {
        var buffer = ByteBuffer(string: sender + "\0m-")
        append(number, digits: digits, to: &buffer)
        return buffer.withUnsafeReadableBytes { Digest128(hashing: $0) }
    }

    static func number(of message: borrowing IncomingMessage) -> Int? {
        message.messageID.flatMap { number(UnsafeBufferPointer(rebasing: message.bytes.unsafeBytes[$0.range])) }
    }

    /// The number in a message's id; nil for one that no server here has sent.
    static func number(_ id: UnsafeBufferPointer<UInt8>) -> Int? {
        guard id.count == digits + 2, id[0] == UInt8(ascii: "m"), id[1] == UInt8(ascii: "-") else { return nil }
        return Decimal.read(UnsafeBufferPointer(rebasing: id[2...]))
    }
}
