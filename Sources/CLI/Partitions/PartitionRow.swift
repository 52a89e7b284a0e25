import MessageStore
import Vocabulary

/// The JSON form of a day's partition.
struct PartitionRow: Encodable {
    var day: String
    var partition: String
    var rowsEstimate: Int64?
    var bytes: Int64
    var fate: String
    var waitingDeliveries: Int64?
    var deadLetters: Int64?

    init(_ partition: PartitionPlan) {
        day = ShownTime.date(partition.day)
        self.partition = partition.name
        rowsEstimate = partition.rows
        bytes = partition.bytes
        fate = partition.fate.rawValue
        if partition.fate == .held { waitingDeliveries = partition.waiting }
        if partition.fate == .held || partition.fate == .drop { deadLetters = partition.deadLetters }
    }
}

extension PartitionPlan {
    /// The deliveries that still need it, as text.
    var neededBy: String { "\(Amount.count(waiting)) \(waiting == 1 ? "delivery" : "deliveries")" }

    /// The dead letters that keep their messages when it is dropped, as text.
    var keptDeadLetters: String {
        guard deadLetters > 0 else { return "" }
        return deadLetters == 1
            ? ", 1 dead letter keeps its message"
            : ", \(Amount.count(deadLetters)) dead letters keep their messages"
    }

    func fateInWords(_ policy: RetentionPolicy) -> String {
        switch fate {
        case .ahead: "ahead"
        case .keep: "keep until \(ShownTime.date(UTCDay(end + policy.messages - .microseconds(1))))"
        case .drop: "drop\(keptDeadLetters)"
        case .held: "held for \(neededBy)"
        }
    }
}

extension ShownTime {
    /// A day as `YYYY-MM-DD`.
    static func date(_ day: UTCDay) -> String { day.start.date }
}
