/// The entries of the navigation.
enum Section: CaseIterable, Sendable {
    case overview, messages, handlers, deliveries, dead, quarantine, conflicts, replays, retention, audit

    /// What it is called, where it leads, and its icon, drawn with lines on 24 by 24.
    private var entry: (title: String, address: PageAddress, icon: HTML) {
        switch self {
        case .overview: ("Overview", "/", "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z")
        case .messages: ("Messages", "/messages", "M4 5h16v12H9l-5 4zM8 9h8M8 13h5")
        case .handlers: ("Handlers", "/handlers", "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6")
        case .deliveries: ("Waiting", "/deliveries", "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2")
        case .dead: ("Dead letters", "/dead", "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5")
        case .quarantine:
            ("Quarantine", "/quarantine", "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM12 8v5M12 16v.1")
        case .conflicts: ("Conflicts", "/conflicts", "M7 4v16M17 4v16M3 8l4-4 4 4M13 16l4 4 4-4")
        case .replays: ("Replays", "/replays", "M4 12a8 8 0 1 0 3-6.2M4 4v4h4M11 9l4 3-4 3z")
        case .retention: ("Retention", "/retention", "M4 6h16v4H4zM6 10v10h12V10M10 14h4")
        case .audit: ("Audit", "/audit", "M7 3h10v18H7zM10 8h4M10 12h4M10 16h2")
        }
    }

    /// Its item in the list, marked on its own pages.
    func item(isCurrent: Bool) -> HTML {
        let (title, address, icon) = entry
        return #"""
            <li><a href="\#(address)"\#(HTML.when(isCurrent, #" aria-current="page""#))>\#
            <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="\#(icon)"/></svg>\#(title)</a></li>
            """#
    }
}

extension PageAddress: ExpressibleByStringLiteral {
    package init(stringLiteral value: StaticString) { self.init(value) }
}
