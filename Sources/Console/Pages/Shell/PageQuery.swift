import Hummingbird

/// The query of a page's address in a form's encoding: `+` for a space, the rest percent-encoded (URL Standard,
/// application/x-www-form-urlencoded).
struct PageQuery: Sendable {
    private let pairs: [(name: String, value: String)]

    init(_ request: Request) { self.init(request.uri.query ?? "") }

    /// Parses the part of an address after `?`.
    init(_ query: String) {
        pairs = query.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? Self.decode(parts[1], plusIsSpace: true) : ""
            return (Self.decode(parts[0], plusIsSpace: true), value)
        }
    }

    /// The first value of a name; nil if missing or empty.
    subscript(_ name: String) -> String? {
        pairs.first { $0.name == name && !$0.value.isEmpty }?.value
    }

    /// The non-empty values of a name, at most twenty.
    func all(_ name: String) -> [String] {
        Array(pairs.lazy.filter { $0.name == name && !$0.value.isEmpty }.map(\.value).prefix(20))
    }

    /// Decodes percent-encoding; invalid UTF-8 becomes U+FFFD.
    static func decode(_ text: some StringProtocol, plusIsSpace: Bool) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if plusIsSpace, byte == UInt8(ascii: "+") {
                bytes.append(0x20)
            } else if byte == UInt8(ascii: "%"), let first = rest.first, let high = digit(first),
                let low = rest.dropFirst().first.flatMap(digit)
            {
                bytes.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
