import MessageStore
import Resources
import Vocabulary

/// `GET history`: what the charts show.
enum HistoryPart {
    static let part = ConsolePart(
        endpoints: [
            .get("getHistory", "history") { request in
                let (subject, range) = (try request[subject], try request[range] ?? .hour)
                let history = try await request.services.reader.withConnection { connection in
                    try await History.read(connection, subject, range)
                }
                return .json(history.json())
            }
            .about("A handler, a sender or the store over time.", .one(History.self)).takes([subject, range])
        ]
    )

    private static let subject = Parameter(
        "subject",
        schema: #"{"type":"string","examples":["handler:billing"]}"#,
        "`store`, `sender:ID` or `handler:NAME`; the store without it."
    ) { text throws(Problem) in
        guard let text else { return HistorySubject.store }
        guard let subject = HistorySubject(text) else {
            throw .badRequest("'subject' is store, sender:ID or handler:NAME")
        }
        return subject
    }
    private static let range = Parameter<HistoryRange?>.word("range", "How far back, up to the last complete minute.")
}

extension HistoryRange {
    /// The range that a page is asked for; an hour without one.
    init(_ request: PageRequest) { self = request.query["range"].flatMap(HistoryRange.init) ?? .hour }

    private var words: String {
        switch self {
        case .hour: "1 hour"
        case .day: "24 hours"
        case .week: "7 days"
        }
    }

    /// The seconds after which a page with charts of it is fetched anew.
    var refresh: Int { self == .hour ? 5 : 60 }

    /// Links to the same page with each range.
    func links(_ base: PageAddress) -> HTML {
        let links = HTML(HistoryRange.allCases) { range in
            """
            <a href="\(base.query("range", range.rawValue))"\(HTML.when(range == self, " aria-current=\"page\""))>\(range.words)</a>
            """
        }
        return "<nav class=\"tabs\" aria-label=\"Range\">\(links)</nav>"
    }
}

/// The charts of a history, and the same as a table.
struct HistoryCharts {
    /// Joined so that a chart has some 60.
    private let points: [HistoryPoint]
    /// The last 24 hours and the 24 before; empty where the history does not go so far back.
    private let days: [HistoryPoint]
    private let held: String
    /// How many points are a row of the table: it has 5 minutes, 2 hours or a day a row.
    private let rowLength: Int

    /// `held` says what ``HistoryPoint/isHeld`` means.
    init(_ history: History, held: String) {
        (points, self.held) = (HistoryPoint.joined(history.points, by: history.range == .hour ? 1 : 3), held)
        rowLength = history.range == .week ? 8 : 5
        days =
            history.range == .week ? HistoryPoint.joined(Array(history.points.suffix(48)), by: 24).reversed() : []
    }

    func chart(_ title: String, _ unit: Chart.Unit, _ series: Chart.Series...) -> HTML {
        Chart(title: title, unit: unit, series: series, points: points, held: held).html
    }

    /// How long shares of the attempts or acks took, 0 to 1 each.
    func times(_ title: String, _ shares: Double...) -> HTML {
        let series = shares.map { share -> Chart.Series in
            ("p\(Int((share * 100).rounded()))", { $0.time(below: share) })
        }
        return Chart(title: title, unit: .seconds, series: series, points: points, held: held).html
    }

    /// Whether it is worse than yesterday: figures that stand for themselves, whatever time was measured.
    func days(now: Timestamp) -> HTML {
        guard let today = days.first else { return "" }
        let span = PageColumn<HistoryPoint>(title: "Span") { $0.at == today.at ? "last 24 hours" : "24 hours before" }
        let figures: [(String, Chart.Unit, (HistoryPoint) -> Double?)] = [
            ("Received", .perSecond, { $0.rate($0.received) }), ("Handled", .perSecond, { $0.rate($0.handled) }),
            ("Attempts failed", .percent, \.failedShare), ("p50", .seconds, { $0.time(below: 0.5) }),
            ("p99", .seconds, { $0.time(below: 0.99) }), ("Most waiting", .count, { $0.waiting.map(Double.init) }),
            ("Oldest", .seconds, \.oldest),
        ]
        let measured = figures.filter { figure in days.contains { figure.2($0) != nil } }
        let columns = measured.map { title, unit, value -> PageColumn<HistoryPoint> in
            var column = PageColumn<HistoryPoint>(title: title) { point in
                guard let value = value(point) else { return "–" }
                return "\(unit.text(value))"
            }
            column.isNumber = true
            return column
        }
        return Part.card("Since yesterday", Part.table("Since yesterday", days, now: now, [span] + columns))
    }

    /// The spans that were measured, the latest first, with some of their figures.
    func table(_ names: [String], now: Timestamp) -> HTML {
        let columns = ["at"] + names
        let rows = HistoryPoint.joined(points, by: rowLength).reversed().filter { $0.minutes > 0 }
        let cells = columns.map { name in
            PageColumn<HistoryPoint>(name) { point in
                switch name {
                case "at": Part.time(point.at)
                case "p50": Self.time(point.time(below: 0.5))
                case "p95": Self.time(point.time(below: 0.95))
                case "p99": Self.time(point.time(below: 0.99))
                case "oldest_seconds": Self.time(point.oldest)
                default: nil
                }
            }
        }
        return """
            <details class="card"><summary>The same as a table</summary>\(Part.table("History", rows, now: now, cells))</details>
            """
    }

    private static func time(_ seconds: Double?) -> HTML { seconds.map { "\(Amount.time($0))" } ?? "–" }
}
