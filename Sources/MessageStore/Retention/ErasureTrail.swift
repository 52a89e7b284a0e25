/// What `forget` leaves in the audit trail of each day: how many bodies it deleted, and nothing about them.
///
/// The ledger keeps what it knows of an erased message. So that a body which `forget` deleted can be told from one that was lost,
/// each transaction of an erasure has an entry with how many bodies of which partition it deleted:
/// `device 0c00…, bodies: 100, messages_20261120: 100`. The entry that ends an erasure has the number of all bodies alone; earlier
/// versions named the partitions there.
package enum ErasureTrail {
    private static let title = "bodies"

    /// Whether an entry says of which days bodies were deleted; earlier versions did not.
    package static func isDated(_ subject: String) -> Bool { subject.contains(", \(title): ") }

    /// One partition's part.
    ///
    /// - Parameters:
    ///   - partition: Its name, with the schema's.
    ///   - count: How many bodies were deleted.
    /// - Returns: Text for ``subject(_:total:_:)``.
    static func entry(_ partition: String, _ count: Int) -> String {
        "\(partition.split(separator: ".").last ?? ""): \(count)"
    }

    /// The whole subject.
    ///
    /// - Parameters:
    ///   - device: Whose messages.
    ///   - total: How many bodies were deleted.
    ///   - partition: The part of the partition they were in; nil for the number of all.
    /// - Returns: A line of less than 1,000 characters.
    static func subject(_ device: String, total: Int, _ partition: String? = nil) -> String {
        ([device, "\(title): \(total)"] + (partition.map { [$0] } ?? [])).joined(separator: ", ")
    }

    /// Reads a subject again.
    ///
    /// - Parameter subject: An entry's subject.
    /// - Returns: The number of deleted bodies by the partition's name; empty where the entry says nothing about any.
    package static func bodies(in subject: String) -> [String: Int] {
        var found: [String: Int] = [:]
        for part in subject.split(separator: ",").dropFirst() {
            let words = part.split(separator: ":")
            guard words.count == 2, let count = Int(words[1].drop { $0 == " " }) else { continue }
            let name = String(words[0].drop { $0 == " " })
            if name != title { found[name, default: 0] += count }
        }
        return found
    }
}
