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
/// A member has one number, however often it is named, and a member that is not named is not sent: statements of one
/// kind can share a type of parameters. Statements nest as parts of others with the same parameters.
///
/// Make each one once, as a static constant: the name on the server is derived from the text. The batch statements of the
/// hot path use ``PostgresStatement`` with parameters encoded by hand.
package struct PreparedStatement<Parameters>: Sendable, ExpressibleByStringInterpolation {
    /// A piece of text or a parameter.
    fileprivate enum Piece: Sendable {
        case text(String)
        case member(Member)
    }

    fileprivate struct Member: Sendable {
        var path: any PartialKeyPath<Parameters> & Sendable
        var type: UInt32
        var bind: @Sendable (Parameters, inout PostgresParameters) -> Void
    }

    /// The text and its name.
    package let statement: PostgresStatement
    private let pieces: [Piece]
    private let members: [Member]

    /// A statement without parameters.
    package init(stringLiteral value: String) { self.init([.text(value)]) }

    /// A statement with parameters.
    package init(stringInterpolation: StringInterpolation) { self.init(stringInterpolation.pieces) }

    private init(_ pieces: [Piece]) {
        var text = ""
        var members: [Member] = []
        var numbers: [AnyKeyPath: Int] = [:]
        for piece in pieces {
            switch piece {
            case .text(let part): text += part
            case .member(let member):
                if numbers[member.path] == nil {
                    members.append(member)
                    numbers[member.path] = members.count
                }
                text += "$\(numbers[member.path, default: 0])"
            }
        }
        self.pieces = pieces
        self.members = members
        statement = PostgresStatement(text)
    }

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
        package mutating func appendInterpolation<Value: SQLBindable>(
            _ member: any KeyPath<Parameters, Value> & Sendable
        ) {
            pieces.append(
                .member(
                    Member(path: member, type: Value.postgresType.oid) { $0[keyPath: member].append(to: &$1) }
                )
            )
        }

        /// A part with the same parameters.
        package mutating func appendInterpolation(_ part: PreparedStatement) { pieces += part.pieces }

        /// Text as it stands; never anything from outside.
        package mutating func appendInterpolation(raw text: String) { pieces.append(.text(text)) }
    }

    /// The object ids of the parameters' types, in the order of their numbers.
    package var types: [UInt32] { members.map(\.type) }

    /// The parameters in the order of their numbers.
    func parameters(_ values: Parameters) -> PostgresParameters {
        var parameters = PostgresParameters()
        for member in members { member.bind(values, &parameters) }
        return parameters
    }
}

extension PostgresConnection {
    /// Runs a statement once, without preparing it, and returns its rows.
    ///
    /// It may be built from what people ask for, in any number of conditions: behind a pooler, too, it runs under our
    /// parameters, its limits among them.
    ///
    /// - Throws: ``PostgresError``
    @discardableResult
    package func run(_ sql: SQL) throws(PostgresError) -> PostgresResult {
        try withParameters { connection throws(PostgresError) in try connection.query(sql.text, sql.parameters) }
    }

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
