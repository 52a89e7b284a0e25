import MessageStore
import Postgres
import Vocabulary

/// A statement of a port, each a transaction of its own.
package enum Statement: String, CaseIterable, Sendable {
    // Of a writer.
    case store
    case ledger
    case conflicts
    case quarantine
    // Of a delivery store.
    case register
    case withdraw
    case keep
    case controls
    case share
    case hold
    case pause
    case unpack
    case claim
    case extend
    case settle
    case settleBlocks
    case backlog
    case unclaimed
    /// The transaction of a SQL function's attempt.
    case call

    package var isOfWriter: Bool { [.store, .ledger, .conflicts, .quarantine].contains(self) }

    /// Whether a server that accepts no writes runs it.
    var isReadOnly: Bool { self == .controls || self == .backlog || self == .unclaimed }
}

/// What goes wrong with one run of a statement.
package struct StatementFault: Sendable {
    package enum End: Sendable {
        /// The server raises an error with this SQLSTATE, and nothing is applied.
        case raised(String)
        /// The session dies; applied or not, the worker can't know.
        case lost(isApplied: Bool)
        /// Our time limit ends it. The server says that nothing is applied, or has committed before the cancel came.
        case timedOut(isApplied: Bool)
        /// It commits here, but the server warns that the wait for the standby was broken off.
        case unconfirmed
    }

    /// How long the transaction stays open between its statement and its COMMIT, with its locks.
    package var delay: Duration
    /// Nil if it succeeds.
    package var end: End?

    package init(delay: Duration = .zero, _ end: End? = nil) { (self.delay, self.end) = (delay, end) }
}

extension StatementFault.End {
    var isApplied: Bool {
        switch self {
        case .raised: false
        case .lost(let isApplied), .timedOut(let isApplied): isApplied
        case .unconfirmed: true
        }
    }

    var error: StoreError {
        switch self {
        case .raised(let state): .raised(state)
        case .lost: .lost
        case .timedOut(let isApplied):
            isApplied ? .unknown(.deadline, isTimeLimit: true) : .raised("57014", isTimeLimit: true)
        case .unconfirmed: .unknown(.connection)
        }
    }
}

/// The errors that the ports give, made as the real ones make them.
extension StoreError {
    static func raised(_ sqlState: String, isTimeLimit: Bool = false, refusesRow: Bool = false) -> StoreError {
        let isFatal = sqlState.hasPrefix("57P")
        var error = PostgresError(
            sqlState: sqlState,
            severity: isFatal ? "FATAL" : "ERROR",
            message: "simulated",
            table: nil,
            constraint: nil
        )
        (error.isTimeLimit, error.refusesRow) = (isTimeLimit, refusesRow)
        return StoreError(error)
    }

    /// The session has died.
    static let lost = StoreError(PostgresError(.connection, "simulated: the connection broke"))

    /// The transaction may have committed.
    static func unknown(_ failureClass: DatabaseErrorClass, isTimeLimit: Bool = false) -> StoreError {
        var error = PostgresError(failureClass, "simulated: the outcome is unknown", sqlState: "08007")
        error.isTimeLimit = isTimeLimit
        return StoreError(error)
    }

    /// Whether the session is given up, so that another server or session may succeed.
    var endsSession: Bool { failureClass != .lock && PostgresError(failureClass, "", sqlState: sqlState).endsSession }

    static let cancelled = StoreError(PostgresError.cancelled("in the simulation"))
}
