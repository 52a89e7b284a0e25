/// A statement with its parameters, or a part of one, written as one text: `"… WHERE name = \(name) AND due <= \(time)"`.
///
/// What is interpolated never becomes part of the text: it is sent beside it, in binary form, and the text says `$1`, `$2` …
/// in its place. Parts nest, and are numbered when the whole is sent. Text that is fixed but computed goes in by
/// `\(raw: …)`, which must never hold anything that came from outside.
package struct SQL: Sendable, ExpressibleByStringInterpolation {
    /// A piece of text or a parameter.
    fileprivate enum Piece: Sendable {
        case text(String)
        case value(any SQLBindable)
    }

    fileprivate var pieces: [Piece]

    /// A statement without parameters.
    package init(stringLiteral value: String) { pieces = [.text(value)] }

    /// A statement with parameters.
    package init(stringInterpolation: StringInterpolation) { pieces = stringInterpolation.pieces }

    /// Puts the text together as the compiler takes it apart.
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var pieces: [Piece] = []

        /// Nothing yet.
        package init(literalCapacity: Int, interpolationCount: Int) {
            pieces.reserveCapacity(2 * interpolationCount + 1)
        }

        /// Text of the source code.
        package mutating func appendLiteral(_ literal: String) { pieces.append(.text(literal)) }

        /// A parameter.
        package mutating func appendInterpolation(_ value: some SQLBindable) { pieces.append(.value(value)) }

        /// A parameter that may be null.
        package mutating func appendInterpolation(_ value: (some SQLBindable)?) { pieces.append(.value(value)) }

        /// Another part, with its parameters.
        package mutating func appendInterpolation(_ part: SQL) { pieces += part.pieces }

        /// Text as it stands; never anything from outside.
        package mutating func appendInterpolation(raw text: String) { pieces.append(.text(text)) }
    }

    /// The text as it is sent, with `$1`, `$2` … for the parameters.
    package var text: String {
        var text = ""
        var count = 0
        for piece in pieces {
            switch piece {
            case .text(let part): text += part
            case .value:
                count += 1
                text += "$\(count)"
            }
        }
        return text
    }

    /// The parameters in the order of their numbers.
    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        for case .value(let value) in pieces { value.append(to: &parameters) }
        return parameters
    }

    /// The object ids of the parameters' types, in the order of their numbers.
    package var types: [UInt32] { parameters.slots.map(\.oid) }

    /// Parts in a row.
    ///
    /// - Parameters:
    ///   - parts: The parts.
    ///   - separator: Fixed text between two of them.
    /// - Returns: One part.
    package static func joined(_ parts: [SQL], separator: String) -> SQL {
        var pieces: [Piece] = []
        for (index, part) in parts.enumerated() {
            if index > 0 { pieces.append(.text(separator)) }
            pieces += part.pieces
        }
        return SQL(pieces)
    }

    fileprivate init(_ pieces: [Piece]) { self.pieces = pieces }
}

/// A statement that is prepared once on each session, with its parameters as members of a value:
/// `"… WHERE handler = \(\.handler) AND lease_token = \(\.token)"`.
///
/// Make each one once, as a static constant: the name on the server is derived from the text. The batch statements of the
/// hot path use ``PostgresStatement`` with parameters encoded by hand.
package struct PreparedStatement<Parameters>: Sendable, ExpressibleByStringInterpolation {
    /// The text and its name.
    package let statement: PostgresStatement
    private let bindings: [@Sendable (Parameters, inout PostgresParameters) -> Void]
    /// The object ids of the parameters' types, in the order of their numbers.
    package let types: [UInt32]

    /// A statement without parameters.
    package init(stringLiteral value: String) {
        statement = PostgresStatement(value)
        bindings = []
        types = []
    }

    /// A statement with parameters.
    package init(stringInterpolation: StringInterpolation) {
        statement = PostgresStatement(stringInterpolation.text)
        bindings = stringInterpolation.bindings
        types = stringInterpolation.types
    }

    /// Puts the text together as the compiler takes it apart.
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""
        fileprivate var bindings: [@Sendable (Parameters, inout PostgresParameters) -> Void] = []
        fileprivate var types: [UInt32] = []

        /// Nothing yet.
        package init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        /// Text of the source code.
        package mutating func appendLiteral(_ literal: String) { text += literal }

        /// A parameter.
        package mutating func appendInterpolation<Value: SQLBindable>(
            _ member: any KeyPath<Parameters, Value> & Sendable
        ) {
            bindings.append { $0[keyPath: member].append(to: &$1) }
            types.append(Value.postgresType.oid)
            text += "$\(bindings.count)"
        }

        /// Text as it stands; never anything from outside.
        package mutating func appendInterpolation(raw fixed: String) { text += fixed }
    }

    /// The parameters in the order of their numbers.
    func parameters(_ values: Parameters) -> PostgresParameters {
        var parameters = PostgresParameters()
        for bind in bindings { bind(values, &parameters) }
        return parameters
    }
}

extension PostgresConnection {
    /// Runs a statement once, without preparing it, and returns its rows.
    ///
    /// - Throws: ``PostgresError``
    @discardableResult
    package func run(_ sql: SQL) throws(PostgresError) -> PostgresResult { try query(sql.text, sql.parameters) }

    /// Runs a statement that is worth preparing, and returns its rows.
    ///
    /// - Throws: ``PostgresError``
    @discardableResult
    package func run<Parameters>(
        _ statement: PreparedStatement<Parameters>,
        _ values: Parameters
    ) throws(PostgresError) -> PostgresResult {
        try execute(statement.statement, statement.parameters(values))
    }
}
