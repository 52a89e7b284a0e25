package import Vocabulary

/// How far a follower has got: everything that had committed by then, and was received within the overlap, was shown.
///
/// Its text form is two whole numbers with a hyphen between; what they mean is nobody's business outside.
package struct TailPosition: Sendable, Equatable, CustomStringConvertible {
    /// The database's time.
    package var at: Timestamp
    /// The oldest transaction that had not ended: what it and later ones inserted may not have been shown.
    package var transaction: Int64
    /// How long after it was received a message may commit and still be found.
    package var overlap = Duration.seconds(60)

    package init(at: Timestamp, transaction: Int64) {
        (self.at, self.transaction) = (at, transaction)
    }

    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        // Fewer digits than overflow, so that a time before it can be computed, too.
        guard parts.count == 2, parts.allSatisfy(Self.isNumber), let time = Int64(parts[0]),
            let transaction = Int64(parts[1]), time < Self.latest
        else { return nil }
        self.init(at: Timestamp(microseconds: time), transaction: transaction)
    }

    package var description: String { "\(at.microseconds)-\(transaction)" }

    /// The year 9999, which the text of times ends with.
    private static let latest: Int64 = 253_402_300_800_000_000

    private static func isNumber(_ text: Substring) -> Bool {
        (1...18).contains(text.utf8.count)
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}
