import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// A request to an endpoint, with the values of the parameters that this declares.
///
/// An unknown name, a repeated one and anything that is not UTF-8 are errors, so that a misspelt filter never selects
/// everything.
struct EndpointRequest: Sendable {
    let http: Request
    let context: ConsoleContext
    let services: ConsoleServices
    /// The members of the body that the endpoint takes.
    let members: [any BodyMember]
    private let values: [String: [String]]

    /// Reads a request.
    init(
        _ request: Request,
        _ context: ConsoleContext,
        _ endpoint: Endpoint,
        _ services: ConsoleServices
    ) throws(Problem) {
        (http, self.context, self.services, members) = (request, context, services, endpoint.body ?? [])
        let declared = endpoint.parameters.filter { $0.place == .query }
        var values: [String: [String]] = [:]
        for (name, value) in try FormText.pairs(request.uri.query ?? "") {
            guard declared.contains(where: { $0.name.description == name }) else {
                throw Self.unknown(name, declared.map(\.name.description).sorted())
            }
            values[name, default: []].append(value)
        }
        for (name, given) in values.sorted(by: { $0.key < $1.key }) where given.count > 1 {
            guard declared.contains(where: { $0.name.description == name && $0.isRepeatable }) else {
                throw .badRequest("'\(name)' is given \(given.count) times; give it once")
            }
        }
        if let excess = FilterBounds.excess(in: values) { throw .badRequest(excess) }
        for parameter in endpoint.parameters where parameter.place != .query {
            let name = parameter.name.description
            let text = parameter.place == .path ? try context.pathPart(name) : Self.header(name, request)
            values[name] = text.map { [$0] }
        }
        self.values = values
    }

    var principal: Principal {
        get throws(Problem) { try context.require(.read) }
    }

    /// What who asks may look for.
    var reach: Sight {
        get throws(Problem) { Sight(tokens: try principal.may(.reveal), payloads: services.sight.payloads) }
    }

    /// The value of a parameter that the endpoint declares.
    subscript<Value>(_ parameter: Parameter<Value>) -> Value {
        get throws(Problem) {
            let text = values[parameter.name.description]?.first
            let value = try parameter.read(text)
            if text != nil, let right = parameter.right { try context.require(right) }
            return value
        }
    }

    /// What is asked for by the fields of a filter, all of which the endpoint declares.
    func filter<Filter: Filtered>(_ type: Filter.Type) throws -> Asked<Filter> { try Asked(values, sight: reach) }

    /// What who asks sees: registration tokens if `reveal` asks for them and they have the right.
    var sight: Sight {
        get throws(Problem) { Sight(tokens: try self[.reveal] != nil, payloads: services.sight.payloads) }
    }

    /// Records that somebody sees tokens, before they do; `keys` are those of messages that the subject doesn't name.
    ///
    /// - Throws: `PostgresError`: nothing may be shown then.
    func recordReveal(of count: Int, _ subject: String, _ keys: [String] = []) async throws {
        let author = AuditAuthor(try principal.name, via: .console)
        let subjects = Self.subjects(subject, keys)
        try await services.writer.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                for (number, text) in subjects.enumerated() {
                    try AuditLog.record(connection, .revealTokens, text, count: number == 0 ? count : nil, by: author)
                }
            }
            services.reader.acted(connection)
        }
    }

    /// The most characters of an audit entry's subject (``AuditLog/record(_:_:_:count:by:isEnd:)``).
    private static let subjectLimit = 1_000

    /// The subject and the keys, split into entries.
    private static func subjects(_ subject: String, _ keys: [String]) -> [String] {
        let text = keys.isEmpty ? subject : subject + ": " + keys.joined(separator: " ")
        var (rest, subjects): (Substring.UnicodeScalarView, [String]) = (text[...].unicodeScalars, [])
        while !rest.isEmpty || subjects.isEmpty {
            let head: String = subjects.isEmpty ? "" : "messages, continued: "
            var part = rest.prefix(subjectLimit - head.unicodeScalars.count)
            // Keys are not cut in two.
            if part.endIndex < rest.endIndex, let space = part.lastIndex(of: " "), space > part.startIndex {
                part = part[...space]
            }
            subjects.append(head + String(part))
            rest = rest[part.endIndex...]
        }
        return subjects
    }

    private static func header(_ name: String, _ request: Request) -> String? {
        let values = HTTPField.Name(name).map { request.headers[values: $0] } ?? []
        return values.isEmpty ? nil : values.joined(separator: ",")
    }

    private static func unknown(_ name: String, _ known: [String]) -> Problem {
        guard !known.isEmpty else { return .badRequest("this path takes no parameters") }
        let hint = Suggestion.nearest(to: name, among: known).map { "did you mean '\($0)'?" }
        return .badRequest(
            "unknown parameter '\(TerminalText.escape(String(name.prefix(64))))'; "
                + (hint ?? "there are \(known.joined(separator: ", "))")
        )
    }
}

extension ConsoleContext {
    /// A part of the path that the route names, decoded: the router leaves it percent-encoded.
    func pathPart(_ name: String) throws(Problem) -> String {
        guard let text = parameters.get(name).flatMap({ FormText.decode($0[...]) }), !text.isEmpty else {
            throw .badRequest("the path has no \(name)")
        }
        return text
    }
}
