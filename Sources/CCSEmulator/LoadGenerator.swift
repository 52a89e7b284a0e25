package import NIOCore

/// Makes the load's stanzas and recognises their ids.
///
/// A message is a pure function of the profile and its number: redelivery needs no storage, and the same number always
/// gives the same JSON. Stanzas come from templates encoded once, so one costs a copy and a few digits.
package struct LoadGenerator: Sendable {
    package let profile: LoadProfile

    private let prefix: [UInt8]
    private let tokenHead = Array(Self.tokenHead.utf8)
    private let tokenTail = Array(Self.tokenTail.utf8)
    private let receiptLimit: UInt64
    private let weights: [Int]
    /// Indexed by category, then kind and size, then form.
    private let templates: [StanzaTemplate]

    /// Different lengths and fillers of upstream messages in each category.
    private static let variants = 4
    private static let tokenHead = "FAKE-"
    private static let tokenTail = ":NOT-A-REAL-TOKEN" + String(repeating: "-NOT-A-REAL-TOKEN", count: 7)
    private static let receiptFrom = "gcm.googleapis.com"
    private static let receiptMark = "dr2:"

    /// Encodes the templates of a profile without ``LoadProfile/problems``.
    package init(profile: LoadProfile, address: StanzaAddress) {
        self.profile = profile
        prefix = Array(profile.effectivePrefix.utf8)
        receiptLimit = UInt64(profile.receiptShare * 65536)
        weights = profile.categories.reduce(into: []) { $0.append(($0.last ?? 0) + $1.weight) }
        var templates: [StanzaTemplate] = []
        for category in profile.categories {
            for variant in 0...Self.variants {
                let json =
                    variant == Self.variants
                    ? Self.receipt(profile, category.name) : Self.upstream(profile, category.name, variant)
                for form in profile.forms {
                    templates.append(StanzaTemplate(address.stanza(around: json, form: form)))
                }
            }
        }
        self.templates = templates
    }

    package func isReceipt(_ sequence: Int) -> Bool { isReceipt(mixed(sequence)) }

    /// Appends a copy of message `sequence`, from 0; each `copy` has another wrapping, `conflicting` other content.
    package func append(_ sequence: Int, copy: Int = 0, conflicting: Bool = false, to output: inout ByteBuffer) {
        let random = mixed(sequence)
        let category = category(random)
        let variant = isReceipt(random) ? Self.variants : Int(truncatingIfNeeded: (random >> 16) & 3)
        let form = (Int(truncatingIfNeeded: (random >> 18) & 0xFFFF) + copy) % profile.forms.count
        let index = (category * (Self.variants + 1) + variant) * profile.forms.count + form
        templates[index].append(
            sequence: sequence,
            id: number(sequence),
            device: device(random),
            variant: conflicting ? 1 : 0,
            to: &output
        )
    }

    package func sequence(ofID id: UnsafeBufferPointer<UInt8>) -> Int? {
        var id = id
        let marked = id.starts(with: Self.receiptMark.utf8)
        if marked { id = UnsafeBufferPointer(rebasing: id.dropFirst(Self.receiptMark.utf8.count)) }
        guard id.count == prefix.count + 13, id.starts(with: prefix), id[prefix.count] == UInt8(ascii: "-"),
            let number = Decimal.read(UnsafeBufferPointer(rebasing: id.dropFirst(prefix.count + 1))),
            case let sequence = profile.idsAreScattered ? ScatteredNumber.sequence(number) : number,
            isReceipt(sequence) == marked
        else { return nil }
        return sequence
    }

    /// Whether this is the `to` that an ack of the message must give.
    package func isSender(_ to: UnsafeBufferPointer<UInt8>, of sequence: Int) -> Bool {
        let random = mixed(sequence)
        if isReceipt(random) { return to.elementsEqual(Self.receiptFrom.utf8) }
        let digits = tokenHead.count..<tokenHead.count + 8
        return to.count == tokenHead.count + 8 + tokenTail.count && to.starts(with: tokenHead)
            && Decimal.read(UnsafeBufferPointer(rebasing: to[digits])) == device(random)
            && to[digits.upperBound...].elementsEqual(tokenTail)
    }

    package func id(_ sequence: Int) -> String {
        let base = profile.effectivePrefix + "-" + Decimal.text(number(sequence), width: 12)
        return isReceipt(sequence) ? Self.receiptMark + base : base
    }

    package func sender(_ sequence: Int) -> String {
        let random = mixed(sequence)
        return isReceipt(random) ? Self.receiptFrom : token(device: device(random))
    }

    /// A device's registration token, obviously not a real one.
    package func token(device: Int) -> String {
        Self.tokenHead + Decimal.text(device, width: 8) + Self.tokenTail
    }

    private func number(_ sequence: Int) -> Int {
        profile.idsAreScattered ? ScatteredNumber.number(sequence) : sequence
    }

    private func mixed(_ sequence: Int) -> UInt64 {
        SplitMix.mix(profile.seed ^ (UInt64(truncatingIfNeeded: sequence) &* 0xD134_2543_DE82_EF95))
    }

    private func isReceipt(_ random: UInt64) -> Bool { (random & 0xFFFF) < receiptLimit }

    private func device(_ random: UInt64) -> Int {
        Int(truncatingIfNeeded: (random >> 34) % UInt64(profile.devices))
    }

    private func category(_ random: UInt64) -> Int {
        guard weights.count > 1, let total = weights.last else { return 0 }
        let wanted = Int(truncatingIfNeeded: (SplitMix.mix(random) >> 1) % UInt64(total))
        return weights.firstIndex { wanted < $0 } ?? 0
    }
}

extension LoadGenerator {
    private static func upstream(_ profile: LoadProfile, _ category: String, _ variant: Int) -> [UInt8] {
        let size = profile.size.lowerBound + (profile.size.count - 1) * variant / (variants - 1)
        let token = tokenHead + StanzaTemplate.hole(.device) + tokenTail
        let id = "\(profile.effectivePrefix)-\(StanzaTemplate.hole(.id))"
        let (sequence, mark) = (StanzaTemplate.hole(.sequence), StanzaTemplate.hole(.variant))
        let head = Array(#"{"data":{"n":"\#(sequence)","variant":"\#(mark)","body":""#.utf8)
        let fields = #"time_to_live":86400,"from":"\#(token)","message_id":"\#(id)""#
        let tail = Array(##""},"\##(fields),"category":"\##(category)"}"##.utf8)
        let salt = SplitMix.mix(profile.seed &+ UInt64(variant))
        return head + filler(size - head.count - tail.count, salt: salt) + tail
    }

    private static func receipt(_ profile: LoadProfile, _ category: String) -> [UInt8] {
        let id = "\(profile.effectivePrefix)-\(StanzaTemplate.hole(.id))"
        let json =
            #"{"category":"\#(category)","data":{"device_registration_id":"FAKE-\#(StanzaTemplate.hole(.device))","#
            + #""message_sent_timestamp":"1498801519251","message_status":"MESSAGE_SENT_TO_DEVICE","#
            + #""variant":"\#(StanzaTemplate.hole(.variant))","original_message_id":"\#(id)"},"#
            + #""from":"gcm.googleapis.com","message_id":"dr2:\#(id)","message_type":"receipt","time_to_live":0}"#
        return Array(json.utf8)
    }

    /// Text of exactly this many bytes such as devices send: words, escapes, markup characters, non-ASCII.
    private static func filler(_ size: Int, salt: UInt64) -> [UInt8] {
        let words = [
            "order ", "basket ", "position ", "48.2082 ", "16.3738 ", "Gr\u{fc}\u{df}e ", "caf\u{e9} ", "\u{1f69a} ",
            #"said \"yes\" "#, #"line\nbreak "#, #"caf\u00e9 "#, "a<b&c>d ", "it's ", "[1,2] ", "{x} ", "]]> ",
        ]
        var result: [UInt8] = []
        var state = salt
        while result.count < size {
            state = SplitMix.mix(state)
            let word = Array(words[Int(truncatingIfNeeded: state % UInt64(words.count))].utf8)
            result +=
                result.count + word.count <= size
                ? word : Array(repeating: UInt8(ascii: "x"), count: size - result.count)
        }
        return result
    }
}
