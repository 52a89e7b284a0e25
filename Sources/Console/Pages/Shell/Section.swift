/// The entries of the navigation.
package enum Section: String, CaseIterable, Sendable {
    /// The state of the system.
    case overview
    case messages
    case handlers
    case deliveries
    case dead
    /// Stanzas that were not messages.
    case quarantine
    /// Known ids with other content.
    case conflicts
    case replays
    /// Stored days and retention.
    case retention
    case audit

    var title: String {
        switch self {
        case .overview: "Overview"
        case .messages: "Messages"
        case .handlers: "Handlers"
        case .deliveries: "Waiting"
        case .dead: "Dead letters"
        case .quarantine: "Quarantine"
        case .conflicts: "Conflicts"
        case .replays: "Replays"
        case .retention: "Retention"
        case .audit: "Audit"
        }
    }

    var address: PageAddress {
        switch self {
        case .overview: "/"
        case .messages: "/messages"
        case .handlers: "/handlers"
        case .deliveries: "/deliveries"
        case .dead: "/dead"
        case .quarantine: "/quarantine"
        case .conflicts: "/conflicts"
        case .replays: "/replays"
        case .retention: "/retention"
        case .audit: "/audit"
        }
    }

    /// Its icon, drawn with lines on 24 by 24.
    var icon: HTML {
        let path: HTML =
            switch self {
            case .overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z"
            case .messages: "M4 5h16v12H9l-5 4zM8 9h8M8 13h5"
            case .handlers: "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6"
            case .deliveries: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2"
            case .dead: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5"
            case .quarantine: "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM12 8v5M12 16v.1"
            case .conflicts: "M7 4v16M17 4v16M3 8l4-4 4 4M13 16l4 4 4-4"
            case .replays: "M4 12a8 8 0 1 0 3-6.2M4 4v4h4M11 9l4 3-4 3z"
            case .retention: "M4 6h16v4H4zM6 10v10h12V10M10 14h4"
            case .audit: "M7 3h10v18H7zM10 8h4M10 12h4M10 16h2"
            }
        return #"<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="\#(path)"/></svg>"#
    }
}

extension PageAddress: ExpressibleByStringLiteral {
    package init(stringLiteral value: StaticString) { self.init(value) }
}
