import Foundation
package import MessageStore
package import Querying
import Vocabulary

extension AuditEntry: ShownResource {
    package static let resource = "AuditEntry"
    package static let fields: [Field<AuditEntry>] = [
        Field("id") { $0.id },
        Field("at", label: "When", look: .moment) { $0.at },
        Field("who") { $0.who },
        Field("role", about: "the database role of the session") { $0.role },
        Field("via", about: "command or console") { $0.via },
        Field("action", look: .tag) { $0.action },
        .changed("subject", \.subject, look: .code) { subject, sight, _ in AuditSubject.shown(subject, to: sight) },
        Field("count", label: "Rows", about: "to how many rows; null where that is not known, or means nothing") {
            $0.count
        },
        Field("reason") { $0.reason },
    ]
}

package enum AuditSubject {
    /// The subject without content of devices and handlers: a filter's group, and a fingerprint.
    package static func shown(_ subject: String, to sight: Sight) -> String {
        var subject = subject
        if let start = subject.range(of: "group '"), let end = subject.range(of: "'", options: .backwards),
            start.upperBound <= end.lowerBound
        {
            let group = sight.group(String(subject[start.upperBound..<end.lowerBound]))
            subject.replaceSubrange(start.upperBound..<end.lowerBound, with: group)
        }
        if !sight.payloads, let start = subject.range(of: ", fingerprint ") {
            subject.replaceSubrange(start.upperBound..., with: Sight.hidden)
        }
        return subject
    }
}
