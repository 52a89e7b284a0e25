import Vocabulary

/// A status badge's meaning, from which its colour follows.
enum Tone: String {
    /// All is well.
    case good
    /// Somebody should look.
    case warning
    /// Something failed.
    case bad
    /// Under way.
    case active
    /// Nothing to say.
    case idle

    fileprivate var name: HTML { "\(rawValue)" }
}

/// Building blocks of pages.
enum Part {
    static func badge(_ tone: Tone, _ text: String) -> HTML {
        #"<span class="badge \#(tone.name)">\#(text)</span>"#
    }

    /// A moment, to the second in UTC; a script adds local time and keeps the age up to date.
    static func time(_ time: Timestamp) -> HTML {
        #"<time datetime="\#(time.rfc3339)">\#(time.shown)</time>"#
    }

    /// A moment's distance from now, with the moment as title.
    static func age(_ time: Timestamp, now: Timestamp) -> HTML {
        #"<time class="age" datetime="\#(time.rfc3339)" title="\#(time.shown)">\#(Figures.age(of: time, now: now))</time>"#
    }

    /// A link with a key's first part.
    static func key(_ key: String, _ address: PageAddress) -> HTML {
        #"<a class="key" href="\#(address)" title="\#(key)">\#(String(key.prefix(8)))</a>"#
    }

    static func head(_ title: String, _ lead: HTML = "", actions: HTML = "") -> HTML {
        """
        <header class="head"><div><h1>\(title)</h1>\(HTML.when(!lead.isEmpty, "<p class=\"lead\">\(lead)</p>"))</div>
        \(HTML.when(!actions.isEmpty, "<div class=\"actions\">\(actions)</div>"))</header>
        """
    }

    static func card(_ title: String, count: String? = nil, actions: HTML = "", _ body: HTML) -> HTML {
        let badge: HTML = count.map { "<span class=\"count\">\($0)</span>" } ?? ""
        return """
            <section class="card"><div class="card-head"><h2>\(title) \(badge)</h2>\(actions)</div>
            \(body)</section>
            """
    }

    /// The placeholder for an empty list: why, and what to do.
    static func empty(_ title: String, _ hint: HTML = "") -> HTML {
        """
        <div class="empty"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 13h4l2 3h4l2-3h4M4 13l3-8h10l3 8v6H4z"/></svg>
        <p class="empty-title">\(title)</p>\(HTML.when(!hint.isEmpty, "<p>\(hint)</p>"))</div>
        """
    }

    static func hidden(_ title: String) -> HTML {
        let hint: HTML = "The configuration says so: <code>console.payloads: hidden</code>."
        return card(title, empty("Payloads are hidden here", hint))
    }

    /// A text of several lines, in HTML.
    static func code(_ name: String, _ text: HTML, isWide: Bool = false) -> HTML {
        """
        <pre class="code\(HTML.when(isWide, " wide"))" tabindex="0" role="region" aria-label="\(name)">\(text)</pre>
        """
    }

    /// JSON that folds; scripts copy its values, and their paths from its own.
    static func json(_ name: String, _ json: HTML, path: HTML) -> HTML {
        """
        <div class="code" tabindex="0" role="region" aria-label="\(name)" data-path="\(path)">\(json)</div>
        """
    }

    static func notice(_ tone: Tone, _ body: HTML) -> HTML {
        #"<div class="notice \#(tone.name)">\#(body)</div>"#
    }

    static func facts(_ facts: [(String, HTML)]) -> HTML {
        #"<dl class="facts">\#(HTML(facts) { "<div><dt>\($0.0)</dt><dd>\($0.1)</dd></div>" })</dl>"#
    }

    static func figure(_ name: String, _ value: String, _ note: HTML, tone: Tone? = nil) -> HTML {
        """
        <div class="figure \(tone?.name)"><span class="figure-name">\(name)</span><span class="figure-value">\(value)</span>
        <span class="figure-note">\(note)</span></div>
        """
    }

    static func progress(_ name: String, _ done: Int64, of total: Int64) -> HTML {
        """
        <div class="progress"><progress aria-label="\(name)" max="\(max(total, 1))" value="\(min(done, max(total, 1)))"></progress>
        <span>\(Figures.count(done)) of \(Figures.count(total)) · \(Figures.share(done, of: total))</span></div>
        """
    }

    /// Links to the first and the next page of a list.
    static func pager(first: PageAddress?, next: PageAddress?) -> HTML {
        guard first != nil || next != nil else { return "" }
        let start: HTML = first.map { #"<a class="button" href="\#($0)">← First page</a>"# } ?? ""
        let more: HTML = next.map { #"<a class="button" rel="next" href="\#($0)">Next page →</a>"# } ?? ""
        return #"<nav class="pager" aria-label="Pages">\#(start)\#(more)</nav>"#
    }
}
