import Dispatcher
import Postgres
import Vocabulary

extension PostgresParameters {
    /// Appends the seven parameters of ``StoreStatements/insert`` that say which deliveries are leased, and which as
    /// blocks.
    mutating func append(_ offer: LeaseOffer) {
        append(offer.owner)
        append(offer.token)
        append(offer.duration.microseconds)
        offer.handlers.append(to: &self)
        offer.local.append(to: &self)
        offer.packed.append(to: &self)
        append(offer.block)
    }
}

extension PostgresParameters {
    /// Appends the two parameters for the time span of messages; nulls for any.
    mutating func append(_ times: ClosedRange<Int64>?) {
        guard let times else {
            appendNull(.timestamptz)
            return appendNull(.timestamptz)
        }
        append(timestamp: times.lowerBound)
        append(timestamp: times.upperBound)
    }
}

extension StoreError {
    private static let unregistered = "UW003"

    /// The pipeline's error for a failure of PostgreSQL: never one that blames a row.
    init(_ error: PostgresError) {
        self.init(error, Self.kind(error))
    }

    /// The error for a row refused for its content.
    init(_ refusal: RowRefusal) { self.init(refusal.error, .refused) }

    private init(_ error: PostgresError, _ kind: Kind) {
        self.init(
            kind: kind,
            sqlState: error.sqlState,
            message: error.description,
            failureClass: error.failureClass
        )
    }

    private static func kind(_ error: PostgresError) -> Kind {
        switch error.sqlState {
        case unregistered: .unregistered
        case StoreStatements.misdated: .misdated
        default: error.isTimeLimit ? .timedOut : .unavailable
        }
    }
}
