import ConfigurationKeys
import XMPP

extension SenderConfiguration {
    enum PayloadForm: String, CaseIterable, Sendable {
        case gcm
        /// A JSON container (XEP-0335).
        case json
    }

    static func payload(_ scope: ConfigurationScope, _ dialect: Dialect, _ idScope: IDScope) -> Payload {
        let form = scope.value("payload", .word(PayloadForm.gcm), default: "gcm")
            .means(
                "What carries a message: the CCS's `gcm`, or a JSON container (XEP-0335) with the same members, not for ccs."
            )
        let ack = scope.optional("ack", .word(JSONPayload.Ack.json), "`json` for json")
            .means(
                "What answers a stored message in a JSON container: "
                    + JSONPayload.Ack.allCases.map { "`\($0.rawValue)`, \($0.meaning)" }.joined(separator: "; ") + "."
            )
        let fallback = Self.fallback(scope.section("fallback"))
        guard form == .json else {
            for key in ["ack", "fallback"] where scope.has(key) {
                scope.problem(key, "is only for payload: json")
            }
            return .gcm
        }
        if dialect == .ccs {
            scope.problem("payload", "must be gcm with dialect: ccs: a CCS knows no other")
        }
        if fallback.messageID != .none, idScope == .sender {
            scope.warning(
                "id_scope",
                "ids that devices' XMPP libraries make are unique for each device at best: use id_scope: device, or a message "
                    + "whose id another device has used goes to conflicts"
            )
        }
        var json = fallback
        json.ack = ack ?? .json
        return .json(json)
    }

    private static func fallback(_ scope: ConfigurationScope) -> JSONPayload {
        let category = ConfigurationType.text("text", "a category of at most 255 bytes") { $0.utf8.count <= 255 }
        var json = JSONPayload.strict
        json.messageID = scope.value("message_id", .word(JSONPayload.MessageID.none), default: "none")
            .means(
                "With payload json, replaces a missing `message_id`: the device's `origin_id` (XEP-0359); `stanza_id`: that, else "
                    + "the stanza's `id`, which must be unique for each device over its restarts."
            )
        json.from = scope.value("from", .word(JSONPayload.From.none), default: "none")
            .means("With payload json, replaces a missing `from`: the bare address of the stanza's sender.")
        json.categoryFrom = scope.value("category_from", .word(JSONPayload.CategoryFrom.none), default: "none")
            .means(
                "With payload json, replaces a missing `category`: the local part of the address that was written to."
            )
        json.category = scope.optional("category", category, "")
            .means("With payload json, replaces a `category` that is still missing.")
        return json
    }
}
