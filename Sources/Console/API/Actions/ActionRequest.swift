import Digests
import Foundation
import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
import Vocabulary

/// A request to change something, with its whole body.
struct ActionRequest: Sendable {
    let endpoint: EndpointRequest
    let principal: Principal
    /// Its `Idempotency-Key`, without quotation marks.
    let key: String
    let body: ActionBody
    /// Who acts and why, for the audit trail.
    let author: AuditAuthor
    /// SHA-256 of method, path and body: tells a repeated request from another one under the same key.
    let digest: [UInt8]

    /// A string of structured fields (RFC 9651 section 3.3.3), or the same without quotation marks.
    static let key = {
        var parameter = Parameter(
            "Idempotency-Key",
            in: .header,
            schema: #"{"type":"string","minLength":1,"maxLength":255,"examples":["retry-billing-1"]}"#,
            "Names the request: sent again with the same key within 24 hours it is answered again and not done again.",
            unquoted
        )
        parameter.isRequired = true
        return parameter
    }()

    /// The most characters of a reason, as PostgreSQL counts them: Unicode scalars.
    private static let reasonLimit = 1_000

    /// Reads a request.
    ///
    /// - Throws: ``Problem``: no key, or a body that is too large, not JSON or not the endpoint's.
    init(_ endpoint: EndpointRequest) async throws {
        let request = endpoint.http
        self.endpoint = endpoint
        (principal, key) = (try endpoint.principal, try endpoint[Self.key])
        let buffer = try await request.body.collect(upTo: endpoint.context.maxUploadSize)
        let bytes = Array(buffer.readableBytesView)
        if !bytes.isEmpty, request.mediaType != "application/json" {
            throw Problem(.notJSON, "send the body with 'Content-Type: application/json'")
        }
        // Foundation would accept UTF-16 too, in which the search below finds no names (RFC 8259, section 8.1).
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw Problem.badRequest("the body is not JSON: that is UTF-8")
        }
        if let name = DuplicateMembers.first(in: bytes) {
            throw Problem.badRequest("the member '\(TerminalText.escape(String(name.prefix(100))))' appears twice")
        }
        body = bytes.isEmpty ? ActionBody() : try Self.decode(bytes, endpoint.members)
        let reason = body[ActionBody.reason]
        if let reason, reason.unicodeScalars.count > Self.reasonLimit {
            throw Problem.badRequest("'reason' has at most 1,000 characters")
        }
        author = AuditAuthor(principal.name, via: .console, reason: reason?.isEmpty == true ? nil : reason)
        let head = "\(request.method.rawValue) \(request.head.path ?? "")\n"
        digest = HashFunction.sha256.digest(of: Array(head.utf8) + bytes)
    }

    var services: ConsoleServices { endpoint.services }

    subscript<Value>(_ parameter: Parameter<Value>) -> Value {
        get throws(Problem) { try endpoint[parameter] }
    }

    private static func unquoted(_ value: String?) throws(Problem) -> String {
        guard let value else {
            let fix =
                "send one with each request that changes something, such as a random UUID, and the same again where the "
                + "answer was lost"
            throw Problem(.keyMissing, fix)
        }
        var key = Substring(value.trimmingCharacters(in: .whitespaces))
        if key.count >= 2, key.first == "\"", key.last == "\"" { key = key.dropFirst().dropLast() }
        let isPlain = key.utf8.allSatisfy {
            (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        guard isPlain, (1...255).contains(key.utf8.count) else {
            let rule = "it has 1 to 255 printable ASCII characters, without spaces, quotation marks and backslashes"
            throw Problem(.keyInvalid, rule)
        }
        return String(key)
    }

    private static func decode(_ body: [UInt8], _ members: [any BodyMember]) throws(Problem) -> ActionBody {
        do {
            return try JSONDecoder().decode(ActionBody.self, from: Data(body), configuration: members)
        } catch let problem as Problem {
            throw problem
        } catch DecodingError.typeMismatch(_, let context) {
            throw .badRequest("\(place(context)) is of another type than is wanted")
        } catch DecodingError.valueNotFound(_, let context) {
            throw .badRequest("\(place(context)) is null")
        } catch {
            throw .badRequest("the body is not JSON, or not of the form that is wanted")
        }
    }

    private static func place(_ context: DecodingError.Context) -> String {
        let path = context.codingPath.map(\.stringValue)
        return path.isEmpty ? "the body" : "'\(path.joined(separator: "."))'"
    }
}
