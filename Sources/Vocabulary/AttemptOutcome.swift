/// What became of an attempt: the values of the history's column `outcome`, where a lost lease has no row, and of
/// `upstream_deliveries_total{outcome}`.
package enum AttemptOutcome: String, CaseIterable, Sendable {
    case done
    /// Counted, and to be retried.
    case retry
    /// The handler rejected the message: a dead letter.
    case rejected
    /// The attempts are used up: a dead letter.
    case exhausted
    /// Not counted, and to be retried: shutdown, or a lost lease.
    case released
}
