import Foundation
import MessageStore
import Vocabulary

/// A chart of some figures over time, drawn as SVG; each span has its figures as title.
///
/// Lines end where nothing was measured; bands show where something was held, and marks where a worker started.
struct Chart {
    enum Unit {
        case perSecond, seconds, percent, count

        func text(_ value: Double) -> String {
            switch self {
            case .perSecond: Figures.decimal(value) + " /s"
            case .seconds: Amount.time(value)
            case .percent: Figures.decimal(value * 100) + "%"
            case .count: Figures.count(Int64(value.rounded()))
            }
        }

        /// The top of an axis for values up to this: a round number.
        fileprivate func ceiling(_ value: Double) -> Double {
            guard value > 0 else { return self == .percent ? 0.01 : 1 }
            if self == .seconds, value > 60 {
                let rounds: [Double] = [120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400]
                return rounds.first { $0 >= value } ?? (value / 86_400).rounded(.up) * 86_400
            }
            let power = pow(10, (log10(value)).rounded(.down))
            let top = [1, 2, 5, 10].map { $0 * power }.first { $0 >= value * 0.999 } ?? value
            return switch self {
            case .percent: min(1, top)
            case .count: max(2, top)
            case .perSecond, .seconds: top
            }
        }
    }

    /// A figure's name and its value; nil for none.
    typealias Series = (name: String, value: (HistoryPoint) -> Double?)

    let title: String
    let unit: Unit
    /// At most three, which differ by colour and dashes.
    let series: [Series]
    let points: [HistoryPoint]
    /// What ``HistoryPoint/isHeld`` means here.
    var held = "held"

    private static let (width, right, left, top, ground) = (480.0, 474.0, 58.0, 12.0, 128.0)

    var html: HTML {
        let values = series.map { series in
            points.map { point in series.value(point).flatMap { $0.isFinite ? $0 : nil } }
        }
        let top = unit.ceiling(values.joined().compactMap(\.self).max() ?? 0)
        let step = (Self.right - Self.left) / Double(max(points.count, 1))
        func y(_ value: Double) -> Double { Self.ground - min(1, max(0, value / top)) * (Self.ground - Self.top) }
        func x(_ place: Int) -> Double { Self.left + Double(place) * step }
        let lines = HTML(values.enumerated()) { number, values in
            let path = Self.path(values.map { $0.map(y) }, x, step)
            return "<path class=\"line s\(number)\" d=\"\(path)\"/>"
        }
        let keys = HTML(zip(series, values).enumerated()) { number, pair in
            let last = pair.1.last { $0 != nil }?.map(unit.text) ?? "–"
            return "<span class=\"legend s\(number)\">\(pair.0.name) \(last)</span>"
        }
        let range = points.isEmpty ? "" : ", \(points[0].at.shown) to \(points[points.count - 1].at.shown)"
        return """
            <figure class="figure chart"><figcaption><span class="figure-name">\(title)</span>\(keys)</figcaption>
            <svg viewBox="0 0 480 150" role="img" aria-label="\(title + range)">\(spans(x, step))\(grid(top, y))\(times(x))\(lines)\
            <g class="hits">\(hits(values, x))</g></svg></figure>
            """
    }

    /// A line through the values, broken at those that are missing; one alone is as wide as its span.
    private static func path(_ values: [Double?], _ x: (Int) -> Double, _ step: Double) -> String {
        var (text, isDrawing) = ("", false)
        for (place, value) in values.enumerated() {
            guard let value else {
                isDrawing = false
                continue
            }
            let isAlone = !isDrawing && (place + 1 == values.count || values[place + 1] == nil)
            text +=
                isAlone
                ? "M\(short(x(place))) \(short(value))h\(short(step))"
                : "\(isDrawing ? "L" : "M")\(short(x(place) + step / 2)) \(short(value))"
            isDrawing = true
        }
        return text
    }

    /// What lies behind the lines: spans without a measurement, held ones, and starts.
    private func spans(_ x: (Int) -> Double, _ step: Double) -> HTML {
        func runs(_ name: HTML, _ condition: (HistoryPoint) -> Bool) -> HTML {
            var (html, start): (HTML, Int?) = ("", nil)
            for place in 0...points.count {
                if place < points.count, condition(points[place]) {
                    start = start ?? place
                } else if let first = start {
                    let width = Double(place - first) * step
                    html +=
                        "<rect class=\"\(name)\" x=\"\(Self.short(x(first)))\" y=\"12\" width=\"\(Self.short(width))\" height=\"116\"/>"
                    start = nil
                }
            }
            return html
        }
        let starts = HTML(points.indices.filter { !points[$0].started.isEmpty }) { place in
            "<path class=\"start\" d=\"M\(Self.short(x(place) + step / 2)) 6V128\"/>"
        }
        return runs("gap") { $0.minutes == 0 } + runs("held", \.isHeld) + starts
    }

    private func grid(_ top: Double, _ y: (Double) -> Double) -> HTML {
        HTML([0, top / 2, top]) { value in
            """
            <path class="grid" d="M58 \(Self.short(y(value)))H474"/>\
            <text x="52" y="\(Self.short(y(value) + 4))" text-anchor="end">\(unit.text(value))</text>
            """
        }
    }

    /// Five times along the axis, in UTC: of the day, or days where the chart is longer than two.
    private func times(_ x: (Int) -> Double) -> HTML {
        guard let first = points.first?.at, let last = points.last?.at else { return "" }
        let isLong = last - first > .seconds(2 * 86_400)
        return HTML((0..<5).map { $0 * (points.count - 1) / 4 }) { place in
            let text = points[place].at.rfc3339
            let anchor: HTML = place == 0 ? "start" : place == points.count - 1 ? "end" : "middle"
            let label = isLong ? text.dropFirst(5).prefix(5) : text.dropFirst(11).prefix(5)
            return "<text x=\"\(Self.short(x(place)))\" y=\"145\" text-anchor=\"\(anchor)\">\(String(label))</text>"
        }
    }

    /// The spans' figures, for whoever points at them.
    private func hits(_ values: [[Double?]], _ x: (Int) -> Double) -> HTML {
        let isLong = points.count > 1 && points[1].at - points[0].at > .seconds(60)
        return HTML(points.enumerated()) { place, point in
            let at = point.at.rfc3339.dropFirst(isLong ? 5 : 11).prefix(isLong ? 11 : 5)
            var parts = [String(at).replacing("T", with: " ")]
            if point.minutes == 0 { parts.append("not measured") }
            for (series, values) in zip(series, values) {
                if let value = values[place] { parts.append("\(series.name) \(unit.text(value))") }
            }
            if point.isHeld { parts.append(held) }
            if !point.started.isEmpty {
                parts.append("worker started: " + Set(point.started).sorted().joined(separator: ", "))
            }
            return """
                <rect x="\(Self.short(x(place)))"><title>\(parts.joined(separator: ", "))</title></rect>
                """
        }
    }

    /// A number with one decimal.
    private static func short(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }
}
