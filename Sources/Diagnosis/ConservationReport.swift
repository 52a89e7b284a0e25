/// The checks of `audit`: a closed set of stable names, listed in `docs/findings.md`.
package enum ConservationCheck: String, Sendable, CaseIterable, Encodable {
    /// Every ledger row has its body, unless retention has dropped its day or `forget` has erased it.
    case ledgerHasBody = "ledger-has-body"
    /// Days without a partition may have been dropped by retention.
    case daysDropped = "days-dropped-by-retention"
    case bodyInLedger = "body-in-ledger"
    /// No message has two bodies: each body has the ledger's time.
    case oneBody = "one-body-each"
    case deliveryHasMessage = "delivery-has-message"
    /// Every delivery in a block has its message.
    case blockHasMessage = "block-has-message"
    case deadLetterHasMessage = "dead-letter-has-message"
    /// Every message that a file lists as acked is known.
    case ackedIsKnown = "acked-is-known"
    /// Every message that a server's archive holds is known.
    case archivedIsKnown = "archived-is-known"
}

/// The result of an audit.
package struct ConservationReport: Sendable, Equatable {
    package struct Result: Sendable, Equatable, Encodable {
        package var check: ConservationCheck
        /// How many items were examined.
        package var looked: Int64 = 0
        package var wrong: Int64 = 0
        /// The first wrong ones: keys, `handler key`, days, or `sender id`.
        package var examples: [String] = []
    }

    /// The ledger's rows: `rows` = `bodies` + `kept` + `dropped` + `erased` + `missing`.
    package struct Ledger: Sendable, Equatable, Encodable {
        package var rows: Int64 = 0
        /// Rows whose body is in `messages`.
        package var bodies: Int64 = 0
        /// Rows whose body is in `dead_messages`, for its dead letters.
        package var kept: Int64 = 0
        /// Rows of days without a partition.
        package var dropped: Int64 = 0
        /// Rows whose body `forget` has erased.
        package var erased: Int64 = 0
        /// Rows whose body is missing.
        package var missing: Int64 = 0
    }

    package internal(set) var results: [Result] = []
    package internal(set) var ledger = Ledger()
    /// Acks of a file, and messages of an archive, that were not found and need not be: older than retention keeps, or impossible to look up.
    package internal(set) var unverifiable: Int64 = 0
    package internal(set) var remarks: [String] = []

    package init() {}

    package var isSound: Bool { results.allSatisfy { $0.wrong == 0 } }

    /// The result of a check; nil if it was not made.
    package func result(_ check: ConservationCheck) -> Result? { results.first { $0.check == check } }

    mutating func update(_ check: ConservationCheck, _ looked: Int64, wrong: Int64, _ examples: [String]) {
        let place = results.firstIndex { $0.check == check } ?? results.count
        if place == results.count { results.append(Result(check: check)) }
        results[place].looked += looked
        results[place].wrong += wrong
        results[place].examples = Array((results[place].examples + examples).prefix(Conservation.examples))
    }
}
