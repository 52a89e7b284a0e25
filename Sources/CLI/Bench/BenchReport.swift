import Foundation
import Vocabulary

/// A measured figure: a member of the report's JSON, and a line of its table.
struct BenchFigure: Sendable {
    let name: String
    /// What its line is called; nil for none.
    let label: String?
    let value: any Encodable & Sendable
    let text: String
    let goal: String

    init(
        _ name: String,
        _ label: String? = nil,
        _ value: some Encodable & Sendable,
        text: String? = nil,
        goal: String = ""
    ) {
        (self.name, self.label, self.value, self.text, self.goal) = (name, label, value, text ?? "\(value)", goal)
    }

    /// A number that the table shows with so many digits behind the point.
    init(_ name: String, _ label: String?, _ value: Double, _ digits: Int, goal: String = "") {
        self.init(name, label, value, text: Self.text(value, digits), goal: goal)
    }

    static func text(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }
}

struct BenchReport: Sendable {
    /// The figures of each number of connections: the same ones, in the same order.
    var throughput: [[BenchFigure]] = []
    var others: [(part: BenchCommand.Part, figures: [BenchFigure])] = []
    /// Violated guarantees: messages lost or acked twice.
    var problems: [String] = []

    var json: JSONMembers {
        var members: JSONMembers = ["throughput": throughput.map(Self.members), "problems": problems]
        for (part, figures) in others { members.add(part.rawValue, Self.members(figures)) }
        return members
    }

    private static func members(_ figures: [BenchFigure]) -> JSONMembers {
        var members: JSONMembers = [:]
        for figure in figures { members.add(figure.name, figure.value) }
        return members
    }

    func show(_ console: Terminal) {
        var tables: [TextTable] = []
        let columns = throughput.map { $0.filter { $0.label != nil } }
        if let first = columns.first {
            let rows = first.indices.map { index in
                let cells = columns.map { $0[index] }
                let goals = cells.map(\.goal).reduce(into: [String]()) { if !$0.contains($1) { $0.append($1) } }
                return [first[index].label ?? ""] + cells.map(\.text)
                    + [goals.filter { !$0.isEmpty }.joined(separator: ", ")]
            }
            let titles = rows[0].dropLast() + ["GOAL"]
            tables.append(TextTable(titles.map { TextTable.Column($0) }, Array(rows.dropFirst())))
        }
        let rows = others.flatMap(\.figures).compactMap { figure in
            figure.label.map { [$0, figure.text, figure.goal] }
        }
        if !rows.isEmpty { tables.append(TextTable(["MEASURE", "VALUE", "GOAL"], rows)) }
        for (index, table) in tables.enumerated() {
            if index > 0 { console.data("") }
            console.table(table)
        }
    }
}

extension Array where Element: Comparable {
    /// The element at a share (0...1) of the sorted array; nil if it is empty.
    package func quantile(_ share: Double) -> Element? {
        guard !isEmpty else { return nil }
        return sorted()[Swift.min(count - 1, Int(Double(count) * share))]
    }
}

extension [Double] {
    /// A latency in milliseconds at a share of the samples, which are in seconds.
    func milliseconds(_ share: Double) -> Double { (quantile(share) ?? 0) * 1000 }
}
