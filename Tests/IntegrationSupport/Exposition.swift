import Foundation
import FoundationNetworking

/// The samples of one scrape.
package struct Exposition: Sendable {
    /// By name and labels, as they stand there.
    package var samples: [String: Double] = [:]
    /// The text itself.
    package var text = ""

    /// Asks the admin endpoints on this port.
    package static func fetch(port: Int) async throws -> Exposition {
        guard let url = URL(string: "http://127.0.0.1:\(port)/metrics") else { return Exposition() }
        let (data, _) = try await URLSession.shared.data(from: url)
        var exposition = Exposition(text: String(decoding: data, as: UTF8.self))
        for line in exposition.text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " ") else { continue }
            exposition.samples[String(line[..<space])] = Double(line[line.index(after: space)...])
        }
        return exposition
    }

    /// The sum over all label sets that hold every one of the given texts.
    package func sum(_ name: String, _ labels: String...) -> Double {
        samples.reduce(0) { sum, sample in
            let isWanted = sample.key == name || sample.key.hasPrefix(name + "{")
            return isWanted && labels.allSatisfy(sample.key.contains) ? sum + sample.value : sum
        }
    }

    /// Copies received, of the kinds that G8 speaks of.
    package var received: Double {
        ["upstream", "receipt", "malformed"].reduce(0) {
            $0 + sum("upstream_stanzas_received_total", "kind=\"\($1)\"")
        }
    }

    /// What became of them, with those under way.
    package var accountedFor: Double { sum("upstream_messages_total") + sum("upstream_messages_in_flight") }
}
