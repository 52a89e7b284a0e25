import Digests
import Foundation
import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
import Vocabulary

/// A request to change something, with its whole body.
struct ActionRequest: Sendable {
    let principal: Principal
    /// Its `Idempotency-Key`, without quotation marks.
    let key: String
    /// The body; `{}` where there is none.
    let body: [UInt8]
    /// SHA-256 of method, path and body: tells a repeated request from another one under the same key.
    let digest: [UInt8]

    /// A string of structured fields (RFC 9651 section 3.3.3), or the same without quotation marks.
    static let keyParameter = {
        var parameter = Parameter(
            "Idempotency-Key",
            in: .header,
            schema: #"{"type":"string","minLength":1,"maxLength":255}"#,
            "Names the request: sent again with the same key within 24 hours it is answered again and not done again.",
            key
        )
        parameter.isRequired = true
        return parameter
    }()

    /// The most characters of a reason, as PostgreSQL counts them: Unicode scalars.
    private static let reasonLimit = 1_000

    /// Reads a request.
    ///
    /// - Parameters:
    ///   - endpoint: The request.
    ///   - settings: How large its body may be.
    /// - Throws: ``Problem``: no key, a body that is too large or not JSON.
    init(_ endpoint: EndpointRequest, _ settings: ConsoleSettings) async throws {
        let request = endpoint.http
        (principal, key) = (try endpoint.principal, try endpoint[Self.keyParameter])
        let buffer = try await request.body.collect(upTo: settings.bodyLimit)
        let bytes = Array(buffer.readableBytesView)
        if !bytes.isEmpty {
            let type = request.headers[.contentType]?.split(separator: ";").first?.trimmingCharacters(in: .whitespaces)
            guard type?.lowercased() == "application/json" else {
                throw Problem(
                    .unsupportedMediaType,
                    "not-json",
                    "Not JSON",
                    "send the body with 'Content-Type: application/json'"
                )
            }
        }
        // Foundation would accept UTF-16 too, in which the search below finds no names (RFC 8259, section 8.1).
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw Problem.badRequest("the body is not JSON: that is UTF-8")
        }
        if let name = DuplicateMembers.first(in: bytes) {
            throw Problem.badRequest("the member '\(TerminalText.escape(String(name.prefix(100))))' appears twice")
        }
        body = bytes.isEmpty ? Array("{}".utf8) : bytes
        let head = "\(request.method.rawValue) \(request.head.path ?? "")\n"
        digest = HashFunction.sha256.digest(of: Array(head.utf8) + bytes)
    }

    private static func key(_ value: String?) throws(Problem) -> String {
        guard let value else {
            throw Problem(
                .badRequest,
                "idempotency-key-missing",
                "No Idempotency-Key",
                "send one with each request that changes something, such as a random UUID, and the same again where the answer "
                    + "was lost"
            )
        }
        var key = Substring(value.trimmingCharacters(in: .whitespaces))
        if key.count >= 2, key.first == "\"", key.last == "\"" { key = key.dropFirst().dropLast() }
        let isPlain = key.utf8.allSatisfy {
            (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        guard isPlain, (1...255).contains(key.utf8.count) else {
            throw Problem(
                .badRequest,
                "idempotency-key-invalid",
                "Invalid Idempotency-Key",
                "it has 1 to 255 printable ASCII characters, without spaces, quotation marks and backslashes"
            )
        }
        return String(key)
    }

    /// Decodes the body and refuses members that the type doesn't know.
    func decode<Body: ActionBody>(_ type: Body.Type = Body.self) throws(Problem) -> Body {
        do {
            return try JSONDecoder().decode(StrictBody<Body>.self, from: Data(body)).value
        } catch let problem as Problem {
            throw problem
        } catch let error as DecodingError {
            throw .badRequest(Self.explain(error))
        } catch {
            throw .badRequest("the body is not JSON of the form that is wanted")
        }
    }

    private static func explain(_ error: DecodingError) -> String {
        func place(_ context: DecodingError.Context) -> String {
            context.codingPath.isEmpty
                ? "the body" : "'" + context.codingPath.map(\.stringValue).joined(separator: ".") + "'"
        }
        return switch error {
        case .typeMismatch(_, let context): "\(place(context)) is of another type than is wanted"
        case .valueNotFound(_, let context): "\(place(context)) is null"
        case .keyNotFound(let key, _): "the member '\(key.stringValue)' is missing"
        default: "the body is not JSON, or not of the form that is wanted"
        }
    }

    /// The author for the audit trail.
    ///
    /// - Throws: ``Problem`` if the reason is too long.
    func author(_ reason: String?) throws(Problem) -> AuditAuthor {
        if let reason, reason.unicodeScalars.count > Self.reasonLimit {
            throw .badRequest("'reason' has at most 1,000 characters")
        }
        return AuditAuthor(principal.name, via: .console, reason: reason?.isEmpty == true ? nil : reason)
    }
}
