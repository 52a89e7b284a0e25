/// A small chart of recent values, without axes.
enum Sparkline {
    private static let width = 240.0
    private static let height = 48.0

    static func html(_ label: String, _ values: [Double]) -> HTML {
        let finite = values.map { $0.isFinite ? max(0, $0) : 0 }
        let top = max(finite.max() ?? 0, 1e-9)
        let step = width / Double(max(finite.count - 1, 1))
        let points = finite.enumerated().map { place, value in
            (x: Double(place) * step, y: height - 3 - value / top * (height - 8))
        }
        guard points.count > 1, let last = points.last else {
            return picture(label, #"<path class="ground" d="M0 45H240"/>"#)
        }
        let line = points.map { "\(round($0.x)) \(round($0.y))" }.joined(separator: "L")
        return picture(
            label,
            """
            <path class="area" d="M0 45L\(line)L\(round(last.x)) 45Z"/><path class="line" d="M\(line)"/>
            """
        )
    }

    private static func picture(_ label: String, _ content: HTML) -> HTML {
        """
        <svg class="spark" viewBox="0 0 240 48" preserveAspectRatio="none" role="img" aria-label="\(label)">\(content)</svg>
        """
    }

    /// Formats with one decimal.
    private static func round(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
