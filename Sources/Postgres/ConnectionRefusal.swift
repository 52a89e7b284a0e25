import CLibPQ
import Glibc
import Vocabulary

/// Why a server refuses a session.
///
/// Of a failed connection libpq gives a text only, in the server's language. Asked to, before the connection is made, it
/// puts the SQLSTATE in that text's place (`PQERRORS_SQLSTATE`), so the question is asked once more.
enum ConnectionRefusal {
    /// Connects again, to learn why the first attempt failed.
    ///
    /// - Parameters:
    ///   - parameters: Keywords and values, as of the attempt that failed.
    ///   - error: Its error.
    ///   - milliseconds: How long the whole may take.
    /// - Returns: The error with its SQLSTATE and class; unchanged where no server answers, or lets us in now.
    static func explain(
        _ parameters: [(String, String)],
        _ error: PostgresError,
        milliseconds: Int
    ) -> PostgresError {
        let pointer = withCStrings(parameters.map(\.0)) { keywords in
            withCStrings(parameters.map(\.1)) { values in
                // We own the result whatever its state; it is null only when memory is out.
                PQconnectStartParams(keywords, values, 1)
            }
        }
        guard let pointer else { return error }
        let connection = ConnectionHandle(owning: pointer)
        _ = PQsetErrorVerbosity(pointer, PQERRORS_SQLSTATE)
        guard !finish(connection, milliseconds: milliseconds) else { return error }
        if let state = state(in: String(cString: PQerrorMessage(pointer))) {
            return PostgresError(
                sqlState: state,
                severity: "FATAL",
                message: error.message,
                table: nil,
                constraint: nil
            )
        }
        // libpq itself gave up: the server asked for a password, and there is none.
        return PQconnectionNeedsPassword(pointer) == 1 ? PostgresError(.authentication, error.message) : error
    }

    /// Drives the connection until it stands, which is true, or has failed.
    private static func finish(_ connection: ConnectionHandle, milliseconds: Int) -> Bool {
        let deadline = monotonicMilliseconds() + Int64(milliseconds)
        var state = PGRES_POLLING_WRITING
        while !connection.isBad, state == PGRES_POLLING_WRITING || state == PGRES_POLLING_READING {
            let left = deadline - monotonicMilliseconds()
            guard left > 0 else { return false }
            let events = Int16(state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN)
            var descriptor = pollfd(fd: PQsocket(connection.pointer), events: events, revents: 0)
            let ready = poll(&descriptor, 1, Int32(clamping: left))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { return false }
            state = PQconnectPoll(connection.pointer)
        }
        return state == PGRES_POLLING_OK
    }

    /// The first SQLSTATE of libpq's text, `…: FATAL:  28P01`: with `sslmode=prefer` the later ones are of the attempt
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
