/// A strict reader of the Prometheus text format 0.0.4, written from its specification alone.
struct Exposition {
    struct Family {
        var type: String
        var help: String
        var samples: [(name: String, labels: [String: String], value: Double)] = []
    }

    struct Malformed: Error {
        var line: String
        var why: String
    }

    private(set) var families: [String: Family] = [:]

    init(_ text: String) throws {
        guard text.hasSuffix("\n") else { throw Malformed(line: "", why: "the last line has no end") }
        var series: Set<String> = []
        var current = ""
        for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
            if line.hasPrefix("# HELP ") {
                current = words[2]
                guard families[current] == nil else { throw Malformed(line: line, why: "a family twice") }
                families[current] = Family(type: "", help: words[3])
            } else if line.hasPrefix("# TYPE ") {
                guard words[2] == current, words.count == 4 else {
                    throw Malformed(line: line, why: "TYPE out of place")
                }
                families[current]?.type = words[3]
            } else {
                let sample = try Self.sample(line)
                let suffixes = families[current]?.type == "histogram" ? ["_bucket", "_sum", "_count"] : [""]
                guard suffixes.contains(where: { current + $0 == sample.name }) else {
                    throw Malformed(line: line, why: "not of the family \(current)")
                }
                let key =
                    sample.name + sample.labels.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: ",")
                guard series.insert(key).inserted else { throw Malformed(line: line, why: "a series twice") }
                families[current]?.samples.append(sample)
            }
        }
        for (name, family) in families where family.type == "histogram" { try Self.check(name, family) }
    }

    /// The value of one series.
    func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        for (family, contents) in families where name.hasPrefix(family) {
            if let found = contents.samples.first(where: { $0.name == name && $0.labels == labels }) {
                return found.value
            }
        }
        return nil
    }

    /// The sum over all series of a family.
    func sum(_ name: String) -> Double {
        families[name]?.samples.reduce(0) { $0 + $1.value } ?? .nan
    }

    private static func sample(_ line: String) throws -> (name: String, labels: [String: String], value: Double) {
        var rest = Substring(line)
        func word(_ first: Bool, _ c: Character) -> Bool {
            c == "_" || ("a"..."z").contains(c) || ("A"..."Z").contains(c) || (!first && ("0"..."9").contains(c))
        }
        let name = rest.prefix { word(false, $0) }
        guard let first = name.first, word(true, first) else { throw Malformed(line: line, why: "no name") }
        rest = rest.dropFirst(name.count)
        var labels: [String: String] = [:]
        if rest.first == "{" {
            rest = rest.dropFirst()
            while rest.first != "}" {
                let label = rest.prefix { word(false, $0) }
                rest = rest.dropFirst(label.count)
                guard !label.isEmpty, rest.hasPrefix("=\"") else { throw Malformed(line: line, why: "bad label") }
                rest = rest.dropFirst(2)
                var value = ""
                while let c = rest.popFirst(), c != "\"" {
                    guard c == "\\" else {
                        value.append(c)
                        continue
                    }
                    switch rest.popFirst() {
                    case "n": value.append("\n")
                    case "\\": value.append("\\")
                    case "\"": value.append("\"")
                    default: throw Malformed(line: line, why: "bad escape")
                    }
                }
                guard labels.updateValue(value, forKey: String(label)) == nil else {
                    throw Malformed(line: line, why: "a label twice")
                }
                if rest.first == "," { rest = rest.dropFirst() }
                if rest.isEmpty { throw Malformed(line: line, why: "labels without end") }
            }
            rest = rest.dropFirst()
        }
        guard rest.first == " ", let value = Double(rest.dropFirst()) else {
            throw Malformed(line: line, why: "bad value")
        }
        return (String(name), labels, value)
    }

    /// Buckets are cumulative and ascending, end at +Inf, and agree with the count.
    private static func check(_ name: String, _ family: Family) throws {
        var groups: [[String: String]: [(Double, Double)]] = [:]
        for sample in family.samples where sample.name == name + "_bucket" {
            var labels = sample.labels
            guard let text = labels.removeValue(forKey: "le"), let bound = Double(text) else {
                throw Malformed(line: sample.name, why: "a bucket without a bound")
            }
            groups[labels, default: []].append((bound, sample.value))
        }
        for (labels, buckets) in groups {
            for (one, next) in zip(buckets, buckets.dropFirst()) where one.0 >= next.0 || one.1 > next.1 {
                throw Malformed(line: name, why: "buckets out of order")
            }
            let count = family.samples.first { $0.name == name + "_count" && $0.labels == labels }?.value
            guard buckets.last?.0 == .infinity, buckets.last?.1 == count else {
                throw Malformed(line: name, why: "the last bucket is not the count")
            }
        }
    }
}
