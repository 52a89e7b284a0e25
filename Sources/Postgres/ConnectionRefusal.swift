import CLibPQ
import Glibc
import Vocabulary

/// Finds out why a server refuses a session.
///
/// For a failed connection libpq gives only a text in the server's language. If told before connecting, it gives the
/// SQLSTATE instead (`PQERRORS_SQLSTATE`), so we connect once more.
enum ConnectionRefusal {
    /// Connects again with the failed attempt's parameters, to add the SQLSTATE and class to its error.
    ///
    /// The error is unchanged if no server answers, or if it accepts us now.
    static func explain(_ parameters: [(String, String)], _ error: PostgresError, milliseconds: Int) -> PostgresError {
        // We own the result in any state; null only when out of memory.
        guard let pointer = withKeywords(parameters, { PQconnectStartParams($0, $1, 1) }) else { return error }
        let connection = ConnectionHandle(owning: pointer)
        _ = PQsetErrorVerbosity(pointer, PQERRORS_SQLSTATE)
        guard !finish(connection, milliseconds: milliseconds) else { return error }
        if let state = state(in: String(cString: PQerrorMessage(pointer))) {
            return PostgresError(sqlState: state, severity: "FATAL", message: error.message)
        }
        // libpq itself gave up: the server asked for a password, and there is none.
        return PQconnectionNeedsPassword(pointer) == 1 ? PostgresError(.authentication, error.message) : error
    }

    /// Drives the connection until it is open (true) or has failed.
    private static func finish(_ connection: ConnectionHandle, milliseconds: Int) -> Bool {
        let deadline = monotonicMilliseconds() + Int64(milliseconds)
        var state = PGRES_POLLING_WRITING
        while !connection.isBad, state == PGRES_POLLING_WRITING || state == PGRES_POLLING_READING {
            let left = deadline - monotonicMilliseconds()
            guard left > 0 else { return false }
            let ready = connection.wait(for: state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN, milliseconds: left)
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { return false }
            state = PQconnectPoll(connection.pointer)
        }
        return state == PGRES_POLLING_OK
    }

    /// The first SQLSTATE in libpq's text, `…: FATAL:  28P01`: with `sslmode=prefer` the later ones are of the attempt
    /// without TLS, which pg_hba.conf may refuse for that alone.
    static func state(in text: String) -> String? {
        for line in text.split(separator: "\n") {
            guard let word = line.split(separator: " ").last, word.utf8.count == 5 else { continue }
            let isState = word.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
            // Every SQLSTATE that refuses a session begins with a digit; no word of a message does.
            if isState, word.utf8.first.map({ $0 < 0x3A }) == true { return String(word) }
        }
        return nil
    }
}
