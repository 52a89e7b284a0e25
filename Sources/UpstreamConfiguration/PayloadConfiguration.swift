import ConfigurationKeys
import XMPP

extension SenderConfiguration {
    static func payload(_ scope: ConfigurationScope, _ dialect: Dialect, _ idScope: IDScope) -> Payload {
        let given = scope.oneOrMore("payload", .word(PayloadForm.gcm), default: "gcm")
            .means(
                "What carries a message: the CCS's `gcm`; a JSON container (XEP-0335) with the same members; the text of `body`; the "
                    + "whole `stanza`; the items of a PubSub `event`. Of a list the first that a stanza has. Only gcm for ccs."
            )
        // Wrong values leave an empty list, and have been reported.
        let forms = given.isEmpty ? [.gcm] : given
        let readsJSON = scope.value("body_json", .flag, default: "false")
            .means("With payload body, `data` is the JSON that a body is, a string only where it is none.")
        let ack = scope.optional("ack", .word(PlainPayload.Ack.json), "`json` where payload has json, else `receipt`")
            .means(
                "What answers a stored message of another form than gcm: "
                    + PlainPayload.Ack.allCases.map { "`\($0.rawValue)`, \($0.meaning)" }.joined(separator: "; ")
                    + ". Events are not answered."
            )
        var plain = fallback(scope.section("fallback"))
        guard forms != [.gcm] else {
            for key in ["ack", "fallback", "body_json"] where scope.has(key) {
                scope.problem(key, "is only for another payload than gcm")
            }
            return .gcm
        }
        plain.forms = forms
        plain.readsJSON = readsJSON
        plain.ack = ack ?? (forms.contains(.json) ? .json : .receipt)
        check(plain, ack, scope, dialect, idScope)
        return .plain(plain)
    }

    /// Reports what does not go together.
    private static func check(
        _ plain: PlainPayload,
        _ ack: PlainPayload.Ack?,
        _ scope: ConfigurationScope,
        _ dialect: Dialect,
        _ idScope: IDScope
    ) {
        let forms = plain.forms
        if dialect == .ccs {
            scope.problem("payload", "must be gcm with dialect: ccs: a CCS knows no other")
        }
        if Set(forms).count < forms.count {
            scope.problem("payload", "must name each form once")
        } else if let last = forms.firstIndex(of: .stanza), last < forms.count - 1 {
            scope.problem("payload", "must not name another form after stanza, which every message has")
        }
        if plain.readsJSON, !forms.contains(.body) { scope.problem("body_json", "is only for payload: body") }
        if ack == .json, !forms.contains(.json) {
            scope.problem("ack", "must be receipt or none: only payload: json has such an ack")
        }
        if ack == .receipt, forms.allSatisfy({ $0 == .gcm || $0 == .event }) {
            scope.problem("ack", "must be none: an event is not answered, and gcm in its own form")
        }
        if forms.contains(.body) || forms.contains(.stanza) {
            if plain.messageID == .none {
                scope.problem("fallback.message_id", "is required: a body or stanza holds no message_id")
            }
            if plain.category == nil, plain.categoryFrom == .none {
                scope.problem("fallback", "must have category or category_from: a body or stanza holds no category")
            }
        }
        let isByDevice = plain.messageID == .originID || plain.messageID == .stanzaID
        if idScope == .sender, isByDevice || forms.contains(.event) {
            scope.warning(
                "id_scope",
                "ids that devices' XMPP libraries make, and those of a node's items, are unique for each device or node at best: "
                    + "use id_scope: device, or a message whose id another has used goes to conflicts"
            )
        }
        if plain.ack == .none, dialect == .component {
            scope.warning(
                "ack",
                "with none nobody keeps a component's message until it is stored: neither the server nor the device"
            )
        }
    }

    private static func fallback(_ scope: ConfigurationScope) -> PlainPayload {
        let category = ConfigurationType.text("text", "a category of at most 255 bytes") { $0.utf8.count <= 255 }
        var plain = PlainPayload.strict
        plain.messageID = scope.value("message_id", .word(PlainPayload.MessageID.none), default: "none")
            .means(
                "Replaces a missing `message_id`: the device's `origin_id` (XEP-0359); `stanza_id`: that, else the stanza's `id`, "
                    + "which must be unique for each device over its restarts; `sender_stanza_id`: the same behind the sender's bare "
                    + "address; `server_id`: the server's stanza-id (XEP-0359), another one when a device sends again."
            )
        plain.from = scope.value("from", .word(PlainPayload.From.none), default: "none")
            .means(
                "With payload json, replaces a missing `from`: the bare address of the stanza's sender, as always where there is no "
                    + "JSON envelope."
            )
        plain.categoryFrom = scope.value("category_from", .word(PlainPayload.CategoryFrom.none), default: "none")
            .means(
                "Replaces a missing `category`: the local part of the address that was written to, the sender's resource up to a "
                    + "slash, or the text of `subject`. An event's is its node."
            )
        plain.category = scope.optional("category", category, "")
            .means("Replaces a `category` that is still missing.")
        return plain
    }
}
