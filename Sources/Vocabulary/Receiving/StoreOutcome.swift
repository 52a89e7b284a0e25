/// The outcome for one delivered copy, once its transaction has committed (`upstream_messages_total{outcome}`).
package enum StoreOutcome: String, CaseIterable, Sendable {
    /// New: in the ledger and in `messages`.
    ///
    /// The ledger tells a new copy by its time of arrival: two copies that arrive at two workers within the same
    /// microsecond both count as new. One row is stored all the same.
    case stored
    /// Known, with the same content.
    case duplicate
    /// Known, with other content: in `conflicts`.
    case conflict
    /// In `quarantine`.
    case quarantined
}
