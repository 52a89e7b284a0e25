import MessageStore

/// What needs attention, the worst first.
struct AttentionList {
    /// Of the handlers in one state, beyond so many a line stands for all: their page lists them.
    private static let mostHandlers = 5

    private var items: [(tone: Tone, html: HTML)] = []

    mutating func add(_ tone: Tone, _ word: String, _ what: HTML, end: HTML) {
        items.append((tone, "<li>\(Part.badge(tone, word))<span class=\"what\">\(what)</span>\(end)</li>"))
    }

    mutating func add(_ tone: Tone, _ word: String, _ what: HTML, _ address: PageAddress, _ link: String) {
        add(tone, word, what, end: "<a href=\"\(address)\">\(link)</a>")
    }

    /// Adds the handlers in a state, each with what `one` says behind its name, or how `many` there are.
    mutating func add(
        _ tone: Tone,
        _ word: String,
        _ handlers: [HandlerView],
        many: String,
        _ address: (HandlerView) -> PageAddress,
        one: (HandlerView) -> HTML
    ) {
        guard handlers.count <= Self.mostHandlers else {
            return add(tone, word, "\(handlers.count) handlers \(many).", "/handlers", "Handlers")
        }
        for handler in handlers {
            let what: HTML = "Handler <strong>\(handler.state.name)</strong> \(one(handler))"
            add(tone, word, what, address(handler), "Look")
        }
    }

    var html: HTML {
        guard !items.isEmpty else {
            let well: HTML = "<strong>All is well.</strong> Workers receive, handlers take, nothing was given up."
            return Part.notice(.good, well)
        }
        let ordered = items.filter { $0.tone == .bad } + items.filter { $0.tone != .bad }
        return Part.card(
            "Needs attention",
            count: "\(items.count)",
            "<ul class=\"attention\">\(ordered.map(\.html))</ul>"
        )
    }
}
