import Foundation
import Testing
import Vocabulary

@testable import Telemetry

/// The alert rules and the dashboard of `deploy/monitoring` speak of metrics, labels and values that exist.
@Suite("alerts and dashboard speak of what there is")
struct MonitoringFilesTests {
    /// The values that a label may have; labels that are not here have open ones.
    private static let values: [MetricName: [String: Set<String>]] = [
        .connections: ["state": all(ConnectionState.self)],
        .stanzas: ["kind": all(StanzaLabel.self).union(all(IncomingMessage.Kind.self))],
        .messages: ["outcome": all(StoreOutcome.self)],
        .acks: ["outcome": all(AckOutcome.self)],
        .databaseErrors: ["class": all(DatabaseErrorClass.self)],
        .reconnects: ["reason": all(ReconnectReason.self)],
        .deliveries: ["outcome": all(AttemptOutcome.self)],
        .circuit: ["state": all(CircuitState.self)],
    ]

    private static func all<Label: MetricLabel>(_: Label.Type) -> Set<String> { Set(Label.allCases.map(\.rawValue)) }

    private func text(_ name: String, in folder: String = "deploy/monitoring") throws -> String {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        return try String(contentsOf: root.appending(path: "\(folder)/\(name)"), encoding: .utf8)
    }

    /// The expressions of both files, each with what stands around it where that can't be told apart.
    private func expressions() throws -> [String] {
        let alerts = try text("alerts.yaml").components(separatedBy: "- alert:").dropFirst()
        var panels: [String] = []
        func walk(_ value: Any) {
            if let list = value as? [Any] { list.forEach(walk) }
            guard let object = value as? [String: Any] else { return }
            if let expression = object["expr"] as? String { panels.append(expression) }
            object.values.forEach(walk)
        }
        walk(try JSONSerialization.jsonObject(with: Data(try text("dashboard.json").utf8)))
        try #require(alerts.count > 5 && panels.count > 10)
        return alerts + panels
    }

    /// The metric that a name in an expression belongs to: a histogram has three names.
    private static func metric(_ name: some StringProtocol) -> MetricName? {
        if let metric = MetricName(rawValue: String(name)) { return metric.kind == .histogram ? nil : metric }
        for suffix in ["_bucket", "_sum", "_count"] where name.hasSuffix(suffix) {
            let metric = MetricName(rawValue: String(name.dropLast(suffix.count)))
            return metric?.kind == .histogram ? metric : nil
        }
        return nil
    }

    /// What is wrong with an expression.
    private func problems(_ expression: String) -> [String] {
        var problems: [String] = []
        var known: Set<String> = ["le"]
        for match in expression.matches(of: /\b((?:upstream|process)_[a-z_]+)\b(?:\{([^}]*)\})?/) {
            // In words a histogram is called by its own name.
            let isWord = match.output.2 == nil && MetricName(rawValue: String(match.output.1))?.kind == .histogram
            guard
                let metric = Self.metric(match.output.1)
                    ?? (isWord ? MetricName(rawValue: String(match.output.1)) : nil)
            else {
                problems.append("there is no \(match.output.1)")
                continue
            }
            known.formUnion(metric.labels)
            for condition in (match.output.2 ?? "").matches(of: /([a-z_]+)(=~|!~|!=|=)"([^"]*)"/) {
                let label = String(condition.output.1)
                if !metric.labels.contains(label) { problems.append("\(metric.rawValue) has no label \(label)") }
                for value in condition.output.3.split(separator: "|") {
                    guard let values = Self.values[metric]?[label], !values.contains(String(value)) else { continue }
                    problems.append("\(metric.rawValue) has no \(label) \(value)")
                }
            }
        }
        for match in expression.matches(of: /\bby \(([^)]*)\)/) {
            for label in match.output.1.split(separator: ",").map({ $0.trimmingCharacters(in: .whitespaces) })
            where !known.contains(label) {
                problems.append("no metric here has a label \(label)")
            }
        }
        return problems
    }

    @Test("every metric, label and value exists")
    func names() throws {
        for expression in try expressions() { #expect(problems(expression).isEmpty, "\(expression)") }
        // What does not exist is found.
        #expect(problems(#"sum by (sender) (rate(upstream_nonsense_total[5m]))"#).count == 2)
        #expect(problems(#"upstream_acks_total{result="sent"}"#).count == 1)
        #expect(problems(#"upstream_acks_total{outcome=~"sent|lost"}"#).count == 1)
        #expect(problems("sum by (handler) (upstream_acks_total)").count == 1)
        #expect(problems("upstream_acks_total_bucket").count == 1)
        #expect(problems(#"upstream_ack_latency_seconds{le="1"}"#).count >= 1)
    }

    @Test("each alert has a case in which it fires and one in which it does not, and there is no case of another")
    func cases() throws {
        let alerts = Set(try text("alerts.yaml").matches(of: /- alert: (\w+)/).map { String($0.output.1) })
        let cases = try text("alerts.test.yaml")
        let firing = cases.matches(of: /alertname: (\w+)\n +exp_alerts:\n +- exp_labels/).map { String($0.output.1) }
        let quiet = cases.matches(of: /alertname: (\w+), exp_alerts: \[\]/).map { String($0.output.1) }
        #expect(alerts.count > 15)
        #expect(Set(firing) == alerts && Set(quiet) == alerts)
        #expect(cases.components(separatedBy: "alertname:").count - 1 == firing.count + quiet.count)
    }

    @Test("the dashboard shows every metric")
    func complete() throws {
        let shown = try expressions().joined(separator: "\n")
        for metric in MetricName.allCases { #expect(shown.contains(metric.rawValue), "\(metric.rawValue)") }
    }

    @Test("docs/metrics.md has every metric with its labels once, and no other")
    func documented() throws {
        let rows = try text("metrics.md", in: "docs").split(separator: "\n").filter { $0.hasPrefix("| `") }
        let names = rows.flatMap { $0.split(separator: "|")[0].matches(of: /`((?:upstream|process)_[^`]+)`/) }
            .map { String($0.output.1) }
        let expected = MetricName.allCases.map { metric in
            metric.labels.isEmpty ? metric.rawValue : "\(metric.rawValue){\(metric.labels.joined(separator: ","))}"
        }
        #expect(names.sorted() == expected.sorted())
    }

    @Test("docs/operations.md says what to do at each alert, and names no other")
    func runbook() throws {
        let alerts = try text("alerts.yaml").matches(of: /- alert: (\w+)/).map { String($0.output.1) }
        let rows = try text("operations.md", in: "docs").matches(of: /\n\| `(Upstream\w+)` \| \S/)
        #expect(rows.map { String($0.output.1) }.sorted() == alerts.sorted())
    }
}
