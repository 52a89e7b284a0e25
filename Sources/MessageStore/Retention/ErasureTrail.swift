/// The audit entries of `forget`: how many bodies it deleted of each day, and nothing about them.
///
/// The ledger keeps its rows of erased messages. To tell bodies deleted by `forget` from lost ones, each transaction of
/// an erasure records how many bodies of which partition it deleted:
/// `device 0c00…, bodies: 100, messages_20261120: 100`. The final entry has only the total; earlier versions named the
/// partitions there.
package enum ErasureTrail {
    private static let title = "bodies"

    /// Whether an entry names the days of the deleted bodies; those of earlier versions did not.
    package static func isDated(_ subject: String) -> Bool { subject.contains(", \(title): ") }

    /// A partition's part of ``subject(_:total:_:)``; its name may have a schema.
    static func entry(_ partition: String, _ count: Int) -> String {
        "\(partition.split(separator: ".").last ?? ""): \(count)"
    }

    /// The whole subject, in less than 1,000 characters; without a partition's part only the total.
    static func subject(_ device: String, total: Int, _ partition: String? = nil) -> String {
        ([device, "\(title): \(total)"] + (partition.map { [$0] } ?? [])).joined(separator: ", ")
    }

    /// Parses a subject: the number of deleted bodies by partition; empty if it names none.
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
