/// Buttons and forms for actions: a script sends them to the API as JSON, each with its own `Idempotency-Key`.
///
/// Hidden without scripts, since the API refuses the requests of ordinary forms.
enum Act {
    enum Kind: String {
        /// The page's main action.
        case primary
        /// Deletes or ends something.
        case danger
        case plain

        fileprivate var style: HTML { self == .plain ? "" : "\(rawValue)" }
    }

    /// A button that sends a request at once, with `fields` as the body's members.
    static func button(
        _ label: String,
        _ address: PageAddress,
        done: String,
        kind: Kind = .plain,
        fields: [(String, String)] = []
    ) -> HTML {
        """
        <form class="needs-script" data-action="\(address)" data-done="\(done)">\(hidden(fields))\
        <button class="small \(kind.style)">\(label)</button></form>
        """
    }

    /// A button that opens a dialog with a form; `id` is unique within the page.
    ///
    /// With a verb the first answer shows how many it would be, frozen, and a second request acts on exactly these. Of
    /// chosen rows: those whose boxes are checked (``PageColumn/choice(_:value:)``) join the fields. When all is done, `next`
    /// is shown, or this page again.
    static func dialog(
        _ id: String,
        _ label: String,
        _ address: PageAddress,
        done: String,
        kind: Kind = .plain,
        isSmall: Bool = true,
        counted verb: String? = nil,
        ofChosen: Bool = false,
        fields: [(String, String)] = [],
        next: PageAddress? = nil,
        _ body: HTML
    ) -> HTML {
        let first = verb == nil ? label : "Count first"
        let mode: HTML =
            (verb.map { " data-verb=\"\($0)\"" } ?? "") + (next.map { " data-next=\"\($0)\"" } ?? "")
        return """
            <button type="button" class="needs-script \(isSmall ? "small" : "") \(kind.style)" data-dialog="\(id)" aria-haspopup="dialog"\
            \(HTML.when(ofChosen, " data-needs-chosen disabled"))>\(label)</button>
            <dialog id="\(id)" aria-labelledby="\(id)-title"><form data-action="\(address)" data-done="\(done)"\
            \(mode)\(HTML.when(ofChosen, " data-chosen"))>
            <h2 id="\(id)-title">\(label)</h2>\(hidden(fields))<div class="stack">\(body)</div>
            <div class="outcome" role="status" aria-live="polite"></div>
            <div class="actions"><button type="button" data-close>Close</button>\
            \(HTML.when(verb != nil, "<button type=\"button\" data-cancel hidden>Cancel</button>"))\
            <button class="\(kind == .plain ? "primary" : kind.style)" data-first="\(first)"\
            \(HTML.when(verb != nil, " formnovalidate"))>\(first)</button></div></form></dialog>
            """
    }

    /// A button in a row with a box (``PageColumn/choice(_:value:)``): chooses that row alone, opens the dialog that acts on
    /// what is chosen, and counts.
    static func ofRow(_ label: String, _ dialog: HTML) -> HTML {
        "<button class=\"small needs-script\" data-dialog=\"\(dialog)\" data-alone>\(label)</button>"
    }

    static func reason(_ id: String, isRequired: Bool = true) -> HTML {
        """
        <div><label for="\(id)-reason">Reason, for the audit trail</label>
        <input id="\(id)-reason" name="reason" maxlength="200" autocomplete="off"\(HTML.when(isRequired, " required"))></div>
        """
    }

    private static func hidden(_ fields: [(String, String)]) -> HTML {
        HTML(fields) { "<input type=\"hidden\" name=\"\($0.0)\" value=\"\(exact: $0.1)\">" }
    }
}
