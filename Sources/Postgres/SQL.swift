import Vocabulary

/// A statement with parameters, or a part of one, written as one text: `"… WHERE name = \(name) AND due <= \(time)"`.
///
/// Interpolated values never become text: they are sent separately in binary form, as `$1`, `$2` …. Parts nest, and are
/// numbered when the whole is sent. Computed fixed text goes in by `\(raw: …)`, which must never hold outside input.
package struct SQL: Sendable, ExpressibleByStringInterpolation, StringInterpolationProtocol {
    private enum Piece: Sendable {
        case text(String)
        case value(any SQLBindable)
    }

    private var pieces: [Piece] = []

    package init(stringLiteral value: String) { pieces = [.text(value)] }

    package init(stringInterpolation: SQL) { self = stringInterpolation }

    package init(literalCapacity: Int, interpolationCount: Int) { pieces.reserveCapacity(2 * interpolationCount + 1) }

    package mutating func appendLiteral(_ literal: String) { pieces.append(.text(literal)) }

    package mutating func appendInterpolation(_ value: some SQLBindable) { pieces.append(.value(value)) }

    package mutating func appendInterpolation(_ value: (some SQLBindable)?) { pieces.append(.value(value)) }

    package mutating func appendInterpolation(_ part: SQL) { pieces += part.pieces }

    /// Text as it is; never outside input.
    package mutating func appendInterpolation(raw text: String) { pieces.append(.text(text)) }

    /// The text to send, with `$1`, `$2` … for the parameters.
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

    /// The parameters in order of their numbers.
    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        for case .value(let value) in pieces { value.append(to: &parameters) }
        return parameters
    }

    /// The object ids of the parameters' types, in order.
    package var types: [UInt32] { parameters.slots.map(\.oid) }

    /// Joins parts with fixed text between them.
    package static func joined(_ parts: [SQL], separator: String) -> SQL {
        var whole: SQL = ""
        for (index, part) in parts.enumerated() {
            if index > 0 { whole.appendLiteral(separator) }
            whole.appendInterpolation(part)
        }
        return whole
    }

    /// A condition that all of these hold; `true` without any.
    package static func all(_ conditions: [SQL?]) -> SQL {
        let given = conditions.compactMap(\.self)
        return given.isEmpty ? "true" : .joined(given, separator: " AND ")
    }
}

/// A statement's text and its prepared name.
///
/// Make each one once, as a static constant: the name is derived from the text.
package struct PostgresStatement: Sendable {
    /// The text, with `$1`, `$2` … for the parameters.
    package let sql: String
    /// Derived from the text, so clients behind a pooler that tracks prepared statements may share it.
    let name: String

    package init(_ sql: String) {
        self.sql = sql
        name = "upstream_" + Hex.encode(FNV1a.hash(sql))
    }
}

/// A statement prepared once on each session, with members of a value as parameters: `"… WHERE handler = \(\.handler)
/// AND lease_token = \(\.token)"`.
///
/// A member has one number however often it is named, and unnamed members are not sent: statements of one kind can
/// share a parameter type. Statements with the same parameters nest.
///
/// Make each one once, as a static constant: its name on the server is derived from the text. The hot path's batch
/// statements use ``PostgresStatement`` with parameters encoded by hand.
package struct PreparedStatement<Parameters>: Sendable, ExpressibleByStringInterpolation {
    fileprivate enum Piece: Sendable {
        case text(String)
        case member(Member)
    }

    fileprivate struct Member: Sendable {
        var path: any PartialKeyPath<Parameters> & Sendable
        var type: UInt32
        var bind: @Sendable (Parameters, inout PostgresParameters) -> Void
    }

    package let statement: PostgresStatement
    private let pieces: [Piece]
    private let members: [Member]

    package init(stringLiteral value: String) { self.init([.text(value)]) }

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

    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var pieces: [Piece] = []

        package init(literalCapacity: Int, interpolationCount: Int) {
            pieces.reserveCapacity(2 * interpolationCount + 1)
        }

        package mutating func appendLiteral(_ literal: String) { pieces.append(.text(literal)) }

        package mutating func appendInterpolation<Value: SQLBindable>(
            _ member: any KeyPath<Parameters, Value> & Sendable
        ) {
            pieces.append(
                .member(
                    Member(path: member, type: Value.postgresType.oid) { $0[keyPath: member].append(to: &$1) }
                )
            )
        }

        package mutating func appendInterpolation(_ part: PreparedStatement) { pieces += part.pieces }

        /// Text as it is; never outside input.
        package mutating func appendInterpolation(raw text: String) { pieces.append(.text(text)) }
    }

    /// The object ids of the parameters' types, in order.
    package var types: [UInt32] { members.map(\.type) }

    /// The parameters in order of their numbers.
    func parameters(_ values: Parameters) -> PostgresParameters {
        var parameters = PostgresParameters()
        for member in members { member.bind(values, &parameters) }
        return parameters
    }
}

extension PostgresConnection {
    /// Runs a statement without preparing it, and returns its rows.
    ///
    /// It may be built from user input with any number of conditions: even behind a pooler it runs under our
    /// parameters, including limits.
    @discardableResult
    package func run(_ sql: SQL) throws(PostgresError) -> PostgresResult {
        try withParameters { connection throws(PostgresError) in try connection.query(sql.text, sql.parameters) }
    }

    /// Runs a statement from outside the connection's thread and returns its rows.
    package nonisolated func result(of sql: SQL) async throws(PostgresError) -> PostgresResult {
        try await run { connection throws(PostgresError) in try connection.run(sql) }
    }

    /// Prepares a statement once, runs it and returns its rows.
    @discardableResult
    package func run<Parameters>(
        _ statement: PreparedStatement<Parameters>,
        _ values: Parameters
    ) throws(PostgresError) -> PostgresResult {
        try execute(statement.statement, statement.parameters(values))
    }
}
