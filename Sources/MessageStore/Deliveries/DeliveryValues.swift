import Dispatcher
package import Postgres
package import UpstreamKit
package import Vocabulary

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

extension MessageKey: SQLElement, SQLDecodable {
    package static var postgresType: PostgresType { .uuid }

    package func write(to parameters: inout PostgresParameters) { digest.write(to: &parameters) }

    package init(_ field: SQLField) throws(SQLFieldFault) { self.init(try Digest128(field)) }
}

extension StoreError {
    private static let unregistered = "UW003"

    /// The pipeline's error for a failure of PostgreSQL, or for a row that it refuses.
    package init(_ error: PostgresError) {
        let kind: Kind =
            switch error.sqlState {
            case _ where error.refusesRow: .refused
            case Self.unregistered: .unregistered
            case StoreStatements.misdated: .misdated
            default: error.isTimeLimit ? .timedOut : .unavailable
            }
        self.init(
            kind: kind,
            sqlState: error.sqlState,
            message: error.description,
            failureClass: error.failureClass
        )
    }
}
