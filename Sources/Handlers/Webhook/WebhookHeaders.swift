import ConfigurationKeys

/// The configured headers of every request of a webhook.
struct WebhookHeaders: Sendable, Equatable {
    /// Why a line is not a permitted header; never holds the value, which may be a secret.
    struct Refused: Error, Sendable, Equatable, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    static let limit = 32

    static let valueLimit = 4_096

    struct Field: Sendable, Equatable {
        let name: String
        let value: String
    }

    private(set) var fields: [Field] = []

    init() {}

    /// These headers and those of more lines, `Name: value`; `holdsSecrets` allows credentials, as in a separate file.
    ///
    /// Throws ``Refused`` for the first line that can't be a header (RFC 9110 section 5), or whose name is reserved.
    func adding(_ lines: [[UInt8]], holdsSecrets: Bool) throws(Refused) -> WebhookHeaders {
        var headers = self
        for (index, line) in lines.enumerated() {
            do throws(Refused) {
                try headers.append(line, holdsSecrets: holdsSecrets)
            } catch {
                throw Refused("line \(index + 1) \(error.description)")
            }
        }
        return headers
    }

    /// Adds a header; throws the rest of a sentence whose subject is the line.
    private mutating func append(_ line: [UInt8], holdsSecrets: Bool) throws(Refused) {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw Refused("must be 'Name: value'") }
        let name = String(decoding: line[..<colon], as: UTF8.self)
        guard colon > 0, name.isAlphanumeric(or: Self.marks) else {
            throw Refused("must begin with a header's name, of letters, digits and \(Self.marks), and a colon")
        }
        let lowercase = name.lowercased()
        if Self.isReserved(lowercase) {
            throw Refused("sets '\(name)', which is set by the request itself")
        }
        if !holdsSecrets, Self.isCredential(lowercase) {
            throw Refused(
                "sets '\(name)', whose value is a secret by its name: "
                    + "write the line to a file, and name it in headers_file"
            )
        }
        if fields.contains(where: { $0.name.lowercased() == lowercase }) {
            throw Refused("sets '\(name)' a second time")
        }
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        let value = line[(colon + 1)...].drop(while: isSpace).reversed().drop(while: isSpace).reversed()
        guard !value.isEmpty, value.count <= Self.valueLimit else {
            throw Refused("must have a value of 1 to \(Self.valueLimit) bytes after '\(name):'")
        }
        // obs-text (RFC 9110 section 5.5) is excluded, since receivers disagree about its meaning.
        guard value.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0x09 }) else {
            throw Refused("must have a value of printable ASCII characters after '\(name):'")
        }
        guard fields.count < Self.limit else { throw Refused("is one header more than \(Self.limit)") }
        fields.append(Field(name: name, value: String(decoding: value, as: UTF8.self)))
    }

    /// What names hold besides letters and digits (`tchar` of RFC 9110 section 5.6.2).
    private static let marks = "!#$%&'*+-.^_`|~"

    /// Names that frame or route the request (RFC 9110, RFC 9112), sign it, or trace it (W3C Trace Context).
    private static func isReserved(_ name: String) -> Bool {
        let names: Set = [
            "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection",
            "keep-alive",
            "proxy-connection", "upgrade", "te", "trailer", "expect", "accept-encoding", "user-agent", "date",
            "traceparent", "tracestate",
        ]
        return names.contains(name) || name.hasPrefix("webhook-") || name.hasPrefix("ce-")
    }

    /// Names whose values are credentials, by definition (RFC 9110, RFC 6265) or by the words in them.
    private static func isCredential(_ name: String) -> Bool {
        ["authorization", "proxy-authorization", "cookie"].contains(name)
            || ["token", "secret", "api-key", "apikey", "password"].contains { name.contains($0) }
    }
}
