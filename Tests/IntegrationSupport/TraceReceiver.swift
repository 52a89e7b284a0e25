import Foundation

/// A span as the collector of `Tests/Tools/trace_receiver.py` read it.
package struct ReceivedSpan: Decodable, Sendable {
    /// A link to another span.
    package struct Link: Decodable, Sendable {
        package var trace: String
        package var id: String
        package var state: String
        package var flags: Int
        package var attributes: [String: Value]
    }

    /// What happened during it.
    package struct Event: Decodable, Sendable {
        package var name: String
        package var attributes: [String: Value]
    }

    /// An attribute's value.
    package enum Value: Decodable, Sendable, Hashable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
        case text(String)
        case number(Int)
        case flag(Bool)
        case double(Double)
        case list([Value])

        package init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let flag = try? container.decode(Bool.self) {
                self = .flag(flag)
            } else if let number = try? container.decode(Int.self) {
                self = .number(number)
            } else if let double = try? container.decode(Double.self) {
                self = .double(double)
            } else if let list = try? container.decode([Value].self) {
                self = .list(list)
            } else {
                self = .text(try container.decode(String.self))
            }
        }

        package init(stringLiteral text: String) { self = .text(text) }
        package init(integerLiteral number: Int) { self = .number(number) }
    }

    package var trace: String
    package var id: String
    package var parent: String
    package var state: String
    package var flags: Int
    package var name: String
    package var kind: Int
    package var start: UInt64
    package var end: UInt64
    package var attributes: [String: Value]
    package var links: [Link]
    package var events: [Event]
    package var dropped: [Int]
    package var status: Int
    package var message: String
    package var resource: [String: Value]
}

/// A collector that reads spans by OTLP's own schema, and an endpoint for webhooks, on the loopback address.
package final class TraceReceiver: Sendable {
    private struct Line: Decodable {
        var span: ReceivedSpan?
        var hook: [String: String]?
        var request: String?
        var headers: [String: String]?
        var problem: String?
    }

    /// Where it listens.
    package var port: Int { server.port }
    private let server: ToolServer
    private let file: URL

    /// Starts it with the Python of `.build/test-tools`.
    ///
    /// - Parameters:
    ///   - folder: Holds what it notes.
    ///   - certificate: Files with the certificate's chain and key; without them it is plain.
    /// - Throws: Where it does not start.
    package init(in folder: TemporaryFolder, certificate: (chain: String, key: String)? = nil) throws {
        file = URL(filePath: try folder.write([], as: "spans-\(UInt32.random(in: 0...UInt32.max))"))
        server = try ToolServer("trace_receiver.py", [file.path] + (certificate.map { [$0.chain, $0.key] } ?? []))
    }

    private func lines() throws -> [Line] {
        let text = try String(contentsOf: file, encoding: .utf8)
        // What comes after the last newline is still being written.
        return try text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
    }

    /// The spans so far.
    package func spans() throws -> [ReceivedSpan] { try lines().compactMap(\.span) }

    /// Waits until there are so many spans of this name.
    package func waitForSpans(_ name: String, count: Int = 1) async throws -> [ReceivedSpan] {
        try await waitUntil("\(count) spans '\(name)'") { try spans().count { $0.name == name } >= count }
        return try spans().filter { $0.name == name }
    }

    /// The headers of the requests to webhooks so far.
    package func hooks() throws -> [[String: String]] { try lines().compactMap(\.hook) }

    /// The headers of the exports so far.
    package func exports() throws -> [[String: String]] {
        try lines().filter { $0.request != nil }.compactMap(\.headers)
    }

    /// What was not as the schema has it.
    package func problems() throws -> [String] { try lines().compactMap(\.problem) }
}
