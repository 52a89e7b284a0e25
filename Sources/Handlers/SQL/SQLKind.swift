import ConfigurationKeys
import Postgres
import Probing
import UpstreamKit
import Vocabulary

/// A PostgreSQL function, called in the transaction that completes the delivery.
struct SQLKind: HandlerKind {
    static let key = "sql"
    static let takesSessions = true

    var function: String
    var batch: Int

    init(_ scope: ConfigurationScope) {
        function = scope.required("function", .sqlFunction).means("Function to call, with its schema.")
        batch = scope.value("batch", .number(1...1000), default: "100").means("Most messages in one transaction.")
    }

    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body {
        guard let name = SQLFunction(function) else {
            throw HandlerProblem("sql.function", "'\(function)' is not a function name")
        }
        return .function(name, batch: batch)
    }

    func probes(_ session: any HandlerProbeSession) -> [Probe] {
        guard let name = SQLFunction(function) else { return [] }
        return [
            Probe("function \(function)") {
                await session.forHandler { connection, role throws(PostgresError) in
                    do throws(PostgresError) {
                        try await Self.resolve(name, on: connection)
                        return .passed(detail: "it exists, and the role may call it")
                    } catch  where error.failureClass == .schema {
                        let fix =
                            "create it as \(function)(message upstream.messages) or \(function)(messages upstream.messages[]), or correct sql.function"
                        return .failed(cause: error.description, fix: fix, status: .configuration)
                    } catch  where error.failureClass == .permission {
                        let schema = function.prefix { $0 != "." }
                        let fix =
                            "GRANT USAGE ON SCHEMA \(schema) TO \"\(role)\"; GRANT EXECUTE ON FUNCTION \(function) TO \"\(role)\""
                        return .failed(cause: error.description, fix: fix, status: .refused)
                    }
                }
            }
        ]
    }

    /// Resolves the function with a message's row, and checks the right to call it, as a delivery does.
    private static func resolve(_ name: SQLFunction, on connection: PostgresConnection) async throws(PostgresError) {
        try await connection.trial { connection throws(PostgresError) in
            let nobody = FunctionStatements.Values(keys: [], times: [])
            try connection.run(FunctionStatements.call(name, connection.form(of: name)).explained, nobody)
        }
    }
}

extension ConfigurationType where Value == String {
    /// A PostgreSQL function's name with its schema, unquoted.
    fileprivate static var sqlFunction: Self {
        .text("schema.function", "a function's name with its schema, such as app.take_order") { text in
            SQLFunction(text) != nil && text.contains(".") && text == text.lowercased()
                && !text.contains { "\"$".contains($0) }
        }
    }
}
