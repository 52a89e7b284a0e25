/// Writes the Prometheus text exposition format, version 0.0.4.
struct ExpositionWriter {
    private(set) var bytes: [UInt8] = []

    mutating func family(_ name: MetricName) {
        append("# HELP \(name.rawValue) ")
        append(Self.escaped(name.help, quotes: false))
        append("\n# TYPE \(name.rawValue) \(name.kind.rawValue)\n")
    }

    mutating func sample(_ name: MetricName, _ values: [String], _ value: some BinaryInteger) {
        line(name.rawValue, zip(name.labels, values).map { ($0, $1) }, String(value))
    }

    mutating func sample(_ name: MetricName, _ values: [String], _ value: Double) {
        line(name.rawValue, zip(name.labels, values).map { ($0, $1) }, Self.number(value))
    }

    /// Writes one sample for each value of a closed label, which is the family's last.
    mutating func closed<Label>(_ name: MetricName, _ values: [String], _ family: CounterFamily<Label>) {
        for label in Label.allCases { sample(name, values + [label.rawValue], family[label].value) }
    }

    mutating func histogram(_ name: MetricName, _ values: [String], _ histogram: Histogram) {
        let snapshot = histogram.snapshot()
        let labels = zip(name.labels, values).map { ($0, $1) }
        var cumulative: UInt64 = 0
        for (index, count) in snapshot.counts.enumerated() {
            cumulative += count
            let bound = index < histogram.bounds.count ? Self.number(histogram.bounds[index]) : "+Inf"
            line(name.rawValue + "_bucket", labels + [("le", bound)], String(cumulative))
        }
        line(name.rawValue + "_sum", labels, Self.number(snapshot.sum))
        line(name.rawValue + "_count", labels, String(cumulative))
    }

    private mutating func line(_ name: String, _ labels: [(String, String)], _ value: String) {
        append(name)
        if !labels.isEmpty {
            append("{")
            for (index, label) in labels.enumerated() {
                append((index == 0 ? "" : ",") + label.0 + "=\"" + Self.escaped(label.1, quotes: true) + "\"")
            }
            append("}")
        }
        append(" " + value + "\n")
    }

    private mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// A number in the format's form; whole numbers without a fraction.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
