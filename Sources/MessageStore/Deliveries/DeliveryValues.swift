import Pipeline
import Postgres
import UpstreamKit
import Vocabulary

extension PostgresParameters {
    /// The seven parameters of ``StoreStatements/insert`` that say which deliveries are leased, and which as blocks.
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
    /// The two parameters that say between which times messages came; nulls for any.
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
    /// What `upstream.store_batch` fails with where a registration is missing.
    private static let unregistered = "UW003"

    /// What a failure of PostgreSQL means for the pipeline: never that a row is to blame.
    init(_ error: PostgresError) {
        self.init(error, Self.kind(error))
    }

    /// A row was refused for its content.
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
