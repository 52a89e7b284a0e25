import Postgres
import UpstreamConfiguration
import Vocabulary

/// A page's frame: head, navigation, the signed-in person and the footer.
struct PageShell: Sendable {
    /// The environment's name and colour, on every page of this task.
    @TaskLocal static var environment: (name: String?, colour: ConsoleConfiguration.Colour?) = (nil, nil)

    /// The page's title in the window and the history.
    let title: String
    /// Its entry in the navigation.
    var section: Section?
    /// The reader; nil before signing in.
    var principal: Principal?
    /// Whether they signed in here, and so can sign out.
    var hasSession = false
    /// The seconds after which a script fetches the page's live parts again; nil for never.
    var refresh: Int?
    /// What stands in the search box.
    var find = ""

    /// A whole document with navigation.
    func document(_ body: HTML) -> HTML {
        let live: HTML = refresh.map { #" data-refresh="\#($0)""# } ?? ""
        return """
            \(head())
            <body class="\(environmentColour)"><a class="skip" href="#main">Skip to the content</a>
            <div class="frame">
            <header class="bar"><a class="brand" href="/">\(mark)<span>upstream</span></a>\(environmentName)
            <button type="button" class="button ghost menu" aria-expanded="false" aria-controls="nav">Menu</button></header>
            <nav id="nav" class="nav" aria-label="Main"><ul>\(items)</ul>
            <div class="nav-end">\(who)<button type="button" class="button ghost theme" hidden>Theme</button></div></nav>
            <main id="main" tabindex="-1" data-at="\(Timestamp.now.rfc3339)"\(live)>\(box)\(body)\(lag)</main>
            </div>
            <div id="toasts" role="status" aria-live="polite"></div>
            </body></html>

            """
    }

    /// A document with one card in the middle: sign-in, and errors before it.
    func card(_ body: HTML, head extra: HTML = "") -> HTML {
        """
        \(head(extra))
        <body class="alone \(environmentColour)"><main id="main" class="card">\
        <div class="brand">\(mark)<span>upstream</span>\(environmentName)</div>
        \(body)</main></body></html>

        """
    }

    private func head(_ extra: HTML = "") -> HTML {
        """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8"><title>\(title) · \(Self.environment.name ?? "upstream console")</title>
        <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
        <meta name="referrer" content="same-origin"><meta name="robots" content="noindex">
        <link rel="icon" href="\(PageAssets.icon(Self.environment.colour))" type="image/svg+xml">
        <link rel="stylesheet" href="\(PageAssets.address("console.css"))">
        <script src="\(PageAssets.address("theme.js"))"></script>
        <script type="module" src="\(PageAssets.address("console.js"))"></script>\(extra)</head>
        """
    }

    /// The search box; a script completes its terms.
    private var box: HTML {
        """
        <form class="find" action="/find" method="get" role="search" aria-label="Everywhere">\
        <input id="find" name="q" value="\(exact: find)" list="find-terms" aria-label="Find messages" autocomplete="off" spellcheck="false" \
        placeholder="id, key, or category:orders since:2h data.total&gt;=100 ( / )"><datalist id="find-terms"></datalist></form>
        """
    }

    /// How old is what the page shows; there and empty where it was read at the primary, so that it goes when it is live.
    private var lag: HTML {
        let note = LagNote.current?.lag?.note.map { $0.prefix(1).uppercased() + String($0.dropFirst()) + "." } ?? ""
        return #"<div id="read-lag" class="muted" data-live>\#(note)</div>"#
    }

    private var items: HTML {
        let parts = ConsolePart.all.filter { part in part.pages.allSatisfy { principal?.may($0.right) != false } }
        return HTML(parts.compactMap(\.section)) { $0.item(isCurrent: $0.address == section?.address) }
    }

    private var environmentColour: HTML { Self.environment.colour.map { "env-\($0.rawValue)" } ?? "" }

    private var environmentName: HTML {
        Self.environment.name.map { "<span class=\"env\">\($0)</span>" } ?? ""
    }

    private var mark: HTML {
        #"<svg class="logo" viewBox="0 0 24 24" aria-hidden="true"><path d="M12 20V5M6 11l6-6 6 6M5 20h14"/></svg>"#
    }

    private var who: HTML? {
        principal.map { principal in
            """
            <p class="who"><span class="who-name" title="\(principal.name)">\(principal.name)</span>
            <span class="muted">\(principal.role.word)</span></p>
            \(HTML.when(hasSession, "<form method=\"post\" action=\"/sign-out\"><button class=\"ghost\">Sign out</button></form>"))
            """
        }
    }
}
