package import Vocabulary

/// A follower's progress: everything committed by then, and received within the overlap, was shown.
///
/// Its text form is two whole numbers joined by a hyphen, opaque to clients.
package struct TailPosition: Sendable, Equatable, CustomStringConvertible {
    package var at: Timestamp
    /// The oldest open transaction: what it and later ones inserted may not have been shown.
    package var transaction: Int64
    /// How late after its receipt a message may commit and still be found.
    package var overlap = Duration.seconds(60)

    package init(at: Timestamp, transaction: Int64) {
        (self.at, self.transaction) = (at, transaction)
    }

    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        // Too few digits to overflow, also when an earlier time is computed from it.
        guard parts.count == 2, parts.allSatisfy(Self.isNumber), let time = Int64(parts[0]),
            let transaction = Int64(parts[1]), time < Self.latest
        else { return nil }
        self.init(at: Timestamp(microseconds: time), transaction: transaction)
    }

    package var description: String { "\(at.microseconds)-\(transaction)" }

    /// The end of the year 9999, the last with a text form.
    private static let latest: Int64 = 253_402_300_800_000_000

    private static func isNumber(_ text: Substring) -> Bool {
        (1...18).contains(text.utf8.count)
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}
