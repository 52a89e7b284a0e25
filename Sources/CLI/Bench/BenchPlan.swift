package import ArgumentParser

/// The load of a run: the options that `bench` shares with `Benchmarks/Compare`.
package struct BenchPlan: ParsableArguments, Sendable {
    @Option(help: "Numbers of connections to measure throughput with, separated by commas.")
    var connections = "1,10"
    @Option(
        name: .customLong("messages"),
        help: "Messages with 10 connections or more; fewer connections get fewer."
    )
    var wanted: Int?
    @Option(help: "Bytes of a message's JSON.")
    package var size = 400
    @Option(help: "Unacked messages on a connection.")
    package var window = 100
    @Option(help: "Writers of the worker and of what it is compared with.")
    package var writers = 2
    @Flag(name: .customLong("quick"), help: "A short run with less exact figures.")
    package var isQuick = false
    @Flag(help: "One JSON object instead of a table.")
    package var json = false

    package init() {}

    package func validate() throws {
        guard !counts.isEmpty, counts.allSatisfy({ (1...1000).contains($0) }) else {
            throw ValidationError("--connections takes numbers from 1 to 1000, such as 1,10")
        }
        guard messages >= 1000, window >= 1, (1...64).contains(writers), (300...65536).contains(size) else {
            throw ValidationError("--messages takes 1000 or more, --size 300 to 65536, --writers 1 to 64")
        }
    }

    package var counts: [Int] { connections.split(separator: ",").map { Int($0) ?? 0 } }

    package var messages: Int { wanted ?? (isQuick ? 40_000 : 200_000) }

    /// The number of messages for this many connections: one connection is bound by the round trip and needs fewer for
    /// the same time.
    package func messages(connections: Int) -> Int { connections >= 10 ? messages : max(1000, messages * 2 / 5) }
}

extension ExpressibleByArgument where Self: CaseIterable & RawRepresentable<String> {
    /// The cases that a list such as `single,idle` names.
    ///
    /// - Throws: `ValidationError` with the known ones.
    package static func list(_ text: String, of option: String) throws -> [Self] {
        try text.split(separator: ",").map { name in
            guard let part = Self(rawValue: String(name)) else {
                throw ValidationError(
                    "\(option) \(name): known parts are \(allCases.map(\.rawValue).joined(separator: ", "))"
                )
            }
            return part
        }
    }
}
