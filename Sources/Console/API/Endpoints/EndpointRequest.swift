import HTTPTypes
import Hummingbird
import Querying
import Resources
import Vocabulary

/// A request to an endpoint, with the values of the parameters that this declares.
///
/// An unknown name, a repeated one and anything that is not UTF-8 are errors, so that a misspelt filter never selects
/// everything.
struct EndpointRequest: Sendable {
    /// The request itself.
    let http: Request
    /// What is known of it.
    let context: ConsoleContext
    private let values: [String: [String]]

    /// Reads a request.
    ///
    /// - Throws: A ``Problem`` with status 400.
    init(_ request: Request, _ context: ConsoleContext, _ endpoint: Endpoint) throws(Problem) {
        (http, self.context) = (request, context)
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

    /// Who asks.
    var principal: Principal {
        get throws(Problem) {
            guard let principal = context.principal else { throw .unauthorized }
            return principal
        }
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
    ///
    /// - Parameters:
    ///   - type: The filter.
    ///   - showsPayloads: Whether what devices sent may be looked for.
    /// - Throws: A ``Problem``
    /// - Returns: The filter as it is written.
    func filter<Filter: Filtered>(_ type: Filter.Type, showsPayloads: Bool) throws(Problem) -> Asked<Filter> {
        let sight = Sight(tokens: try principal.may(.reveal), payloads: showsPayloads)
        do throws(FilterMistake) {
            return try Asked(values, sight: sight)
        } catch {
            throw Problem(error)
        }
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
    /// A part of the path that the route names, decoded.
    ///
    /// - Throws: ``Problem``
    func pathPart(_ name: String) throws(Problem) -> String {
        guard let text = parameters.get(name).flatMap({ FormText.decode($0[...]) }), !text.isEmpty else {
            throw .badRequest("the path has no \(name)")
        }
        return text
    }
}

extension Problem {
    /// What a mistake in a filter means.
    init(_ mistake: FilterMistake) {
        switch mistake {
        case .wrong(let name, let text): self = .badRequest("'\(name)': \(text)")
        case .order: self = .badRequest("'since' must be before 'until'")
        case .payloadsHidden: self = .payloadsHidden
        case .groupHidden: self = .groupHidden
        case .clauseOnToken: self = .clauseOnToken
        }
    }
}
