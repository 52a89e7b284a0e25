import MessageStore
import Querying
import UpstreamKit
import Vocabulary
import XMLWire
import XMPP

/// Turns lines of `messages export --with-tokens` into messages.
///
/// A line becomes the payload that the device sent and passes through the receive path's codec, so key, fingerprint and
/// validation are those of a received message.
struct ImportReader {
    struct Refusal: Error {
        var message: String

        init(_ message: String) { self.message = message }
    }

    /// The senders so far, in the order of ``IncomingMessage/sender``.
    private(set) var senders: [String] = []
    private var codecs: [(sender: UpstreamCodec, device: UpstreamCodec)] = []
    private var indices: [String: Int] = [:]
    private var scanner = JSONScanner()
    private var stanza = Stanza()
    private let now: Timestamp

    /// A reader that uses this time for lines without one.
    init(now: Timestamp) { self.now = now }

    mutating func read(_ line: UnsafeBufferPointer<UInt8>) throws(Refusal) -> IncomingMessage {
        let fields = try Fields(line, &scanner)
        guard fields.members["registration_token"] != nil else {
            throw Refusal("registration_token is missing: export with --with-tokens")
        }
        guard let sender = try fields.text("sender_id"), !sender.isEmpty else { throw Refusal("sender_id is missing") }
        var receivedAt = now
        if let text = try fields.text("received_at") {
            do throws(FilterError) {
                receivedAt = try TimeExpression.moment(text)
            } catch {
                throw Refusal("received_at is not a time")
            }
            guard Partitions.days.contains(UTCDay(microseconds: receivedAt.microseconds)) else {
                throw Refusal("received_at is not between the years 2000 and 2100")
            }
        }
        wrap(try fields.payload())
        var message = try decode(sender, key: try fields.digest("message_key"))
        if let fingerprint = try fields.digest("fingerprint"), fingerprint != message.fingerprint {
            throw Refusal("the content does not match its fingerprint: it was changed or damaged")
        }
        message.receivedAt = receivedAt.microseconds
        if let from = try fields.text("stanza_from") {
            message.stanzaFrom = ByteSpan(start: message.bytes.count, count: from.utf8.count)
            message.bytes += from.utf8
        }
        return message
    }

    private mutating func wrap(_ payload: [UInt8]) {
        stanza.reset()
        func add(_ text: some Collection<UInt8>) -> Range<Int> {
            let start = stanza.bytes.count
            stanza.bytes += text
            return start..<stanza.bytes.count
        }
        let none = 0..<0
        let message = (add("message".utf8), add("jabber:client".utf8))
        let gcm = (add("gcm".utf8), add("google:mobile:data".utf8), add(payload))
        stanza.elements = [
            .init(depth: 0, name: message.0, namespace: message.1, attributes: none, text: none, end: 2),
            .init(depth: 1, name: gcm.0, namespace: gcm.1, attributes: none, text: gcm.2, end: 2),
        ]
    }

    private mutating func decode(_ sender: String, key: Digest128?) throws(Refusal) -> IncomingMessage {
        let index = try index(of: sender)
        let message = try decode(&codecs[index].sender)
        guard let key, message.messageKey != key else { return message }
        // The other database may use ids that are unique per device only.
        let other = try decode(&codecs[index].device)
        guard other.messageKey == key else {
            throw Refusal("message_key is not that of this sender_id and message_id")
        }
        return other
    }

    private mutating func index(of sender: String) throws(Refusal) -> Int {
        if let index = indices[sender] { return index }
        guard let number = UInt16(exactly: senders.count) else { throw Refusal("more than 65,536 senders") }
        func codec(_ scope: IDScope) -> UpstreamCodec {
            var settings = StreamSettings(senderID: sender, domain: "import.invalid", index: number)
            settings.idScope = scope
            return UpstreamCodec(settings)
        }
        codecs.append((codec(.sender), codec(.device)))
        indices[sender] = senders.count
        senders.append(sender)
        return senders.count - 1
    }

    private func decode(_ codec: inout UpstreamCodec) throws(Refusal) -> IncomingMessage {
        guard case .message(let message) = codec.decode(stanza, receivedAt: 0, parsedAt: 0) else {
            throw Refusal("not a message: message_type is that of an ack, a nack or a control message")
        }
        if let reason = message.quarantine { throw Refusal("\(reason.rawValue): \(message.quarantineDetail)") }
        return message
    }

    private struct Fields {
        let line: UnsafeBufferPointer<UInt8>
        var members: [String: JSONMember] = [:]

        init(_ line: UnsafeBufferPointer<UInt8>, _ scanner: inout JSONScanner) throws(Refusal) {
            self.line = line
            do throws(JSONSyntaxError) {
                guard try scanner.scan(line) == .object else { throw JSONSyntaxError(.unexpectedByte, at: 0) }
            } catch {
                throw Refusal("not a JSON object (at byte \(error.offset + 1))")
            }
            for member in scanner.members {
                let name = String(decoding: JSONLiteral.text(of: member.key, in: line), as: UTF8.self)
                guard members.updateValue(member, forKey: name) == nil else { throw Refusal("a member appears twice") }
            }
        }

        func text(_ name: String) throws(Refusal) -> String? {
            guard let member = members[name], member.kind != .null else { return nil }
            guard member.kind == .string else { throw Refusal("\(name) is not a string") }
            return String(decoding: JSONLiteral.text(of: member.body, in: line), as: UTF8.self)
        }

        func digest(_ name: String) throws(Refusal) -> Digest128? {
            guard let text = try text(name) else { return nil }
            guard let key = MessageKey(text) else { throw Refusal("\(name) is not a UUID") }
            return key.digest
        }

        /// The payload that the device sent.
        func payload() throws(Refusal) -> [UInt8] {
            var payload = EnvelopeWriter()
            let literals = [
                ("message_id", "message_id"), ("from", "registration_token"), ("category", "category"),
                ("message_type", "message_type"),
            ]
            for (name, source) in literals {
                if let member = members[source], member.kind != .null { payload.add(name, line[member.value.range]) }
            }
            // A string if a line can't hold the exact text, or jsonb would reject it.
            let exact = [members["data_verbatim"], members["data_raw"]].compactMap(\.self)
            if let member = exact.first(where: \.isString) {
                payload.add("data", JSONLiteral.text(of: member.body, in: line))
            } else if let member = members["data"] {
                payload.add("data", line[member.value.range])
            }
            return payload.finish(with: try extra())
        }

        private func extra() throws(Refusal) -> [UInt8] {
            if let member = members["extra_verbatim"], member.kind == .string {
                return JSONLiteral.text(of: member.body, in: line)
            }
            guard let member = members["extra"], member.kind != .null else { return [] }
            guard member.kind == .object else { throw Refusal("extra is not an object") }
            return Array(line[member.value.range])
        }
    }
}
