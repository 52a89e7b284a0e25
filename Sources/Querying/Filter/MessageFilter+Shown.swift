import Foundation
import Vocabulary

extension MessageFilter {
    /// The conditions as the audit trail names them, each after a comma; empty without conditions.
    ///
    /// Operands of clauses are left out: they may be part of a payload or a registration token, and the trail holds
    /// neither.
    package var auditText: String {
        var parts = categories.map { "category \($0)" }
        if let senderID { parts.append("sender \(senderID)") }
        if let deviceKey { parts.append("device \(deviceKey)") }
        if let messageID { parts.append("message_id \(messageID)") }
        if let messageKey { parts.append("message \(messageKey)") }
        if let since { parts.append("since \(since.rfc3339)") }
        if let until { parts.append("until \(until.rfc3339)") }
        parts += clauses.map { "where " + $0.textWithoutOperand }
        return parts.map { ", " + $0 }.joined()
    }

    /// A replay's stored selection, shown to a reader with this sight.
    ///
    /// Operands of clauses are parts of payloads, and may be registration tokens.
    ///
    /// - Returns: The JSON form with an ellipsis for each hidden operand; ``Sight/hidden`` if it can't be read.
    package static func shown(_ selection: String, to sight: Sight) -> String {
        guard !(sight.payloads && sight.tokens) else { return selection }
        guard var filter = try? JSONDecoder().decode(MessageFilter.self, from: Data(selection.utf8)) else {
            return Sight.hidden
        }
        guard filter.clauses.contains(where: { !sight.payloads || $0.mayNameToken }) else { return selection }
        filter.clauses = filter.clauses.map { !sight.payloads || $0.mayNameToken ? $0.withoutOperand : $0 }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(filter)).map { String(decoding: $0, as: UTF8.self) } ?? Sight.hidden
    }
}
