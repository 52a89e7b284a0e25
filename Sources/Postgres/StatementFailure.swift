/// The error type of code that runs statements: PostgreSQL's errors, and perhaps more.
package protocol StatementFailure: Error {
    static func database(_ error: PostgresError) -> Self
}

extension StatementFailure {
    package static func catching<T>(_ body: () throws(PostgresError) -> T) throws(Self) -> T {
        do throws(PostgresError) {
            return try body()
        } catch {
            throw .database(error)
        }
    }
}

extension PostgresError: StatementFailure {
    package static func database(_ error: PostgresError) -> PostgresError { error }
}
