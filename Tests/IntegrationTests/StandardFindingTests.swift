import Foundation
import IntegrationSupport
import Probing
import Telemetry
import Testing
import UpstreamConfiguration
import Vocabulary
import Worker

extension Integration {
    /// A server that only its domain leads to: Prosody and ejabberd behind a name server of the tests.
    @Suite struct StandardFindingTests {
        private static let direct = "_xmpps-client._tcp.\(StandardServer.domain)"
        private static let startTLS = "_xmpp-client._tcp.\(StandardServer.domain)"

        /// The server's configuration without its host.
        private static func yaml(_ server: StandardServer, _ database: Database, _ names: NameServer) throws -> String {
            try server.yaml(database, mode: "starttls")
                .replacing("    host: 127.0.0.1\n", with: "")
                .replacing("    port: \(server.ports.startTLS)\n", with: "")
                .replacing("mode: starttls, ", with: "")
                + "dns: {server: \"127.0.0.1:\(names.port)\"}\n"
        }

        private static func connections(_ worker: LocalWorker) -> [[String: Any]] {
            worker.logs.lines.compactMap { line in
                guard line.contains("stream.connected") else { return nil }
                return try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            }
        }

        @Test(
            "the records lead to the server, each to its kind of TLS; the certificate is the domain's, not the host's",
            arguments: ServerKind.allCases
        )
        func found(_ kind: ServerKind) async throws {
            try await StandardServer.run(kind) { server, sender, database in
                let closed = UInt16(try await Self.closedPort())
                let names = try await NameServer.start([
                    Self.direct: .records([
                        (1, 0, closed, "localhost."), (2, 0, UInt16(server.ports.direct), "localhost."),
                    ]),
                    Self.startTLS: .records([(3, 0, UInt16(server.ports.startTLS), "localhost.")]),
                ])
                for (round, service) in [Self.direct, Self.startTLS].enumerated() {
                    if round == 1 { names.set(Self.direct, .records([(0, 0, 0, ".")])) }
                    let worker = try LocalWorker(yaml: try Self.yaml(server, database, names))
                    let ids = (1...10).map { "round \(round) \($0)" }
                    try sender.send(ids)
                    try await waitUntil("every message is acked") { sender.acks.count == ids.count * (round + 1) }
                    // ejabberd's offline store may be fetched before.
                    try await waitUntil("the stream is bound") { !Self.connections(worker).isEmpty }
                    let line = try #require(Self.connections(worker).first)
                    #expect(line["service"] as? String == service && line["host"] as? String == "localhost", "\(line)")
                    #expect(line["state"] as? String == (round == 0 ? "direct" : "starttls"))
                    #expect(line["address"] as? String == "127.0.0.1")
                    try await worker.stop()
                }
                try await names.stop()
            }
        }

        @Test(
            "a server that was away is found at its next connection; check --connect names the place and the address",
            arguments: ServerKind.allCases
        )
        func recovered(_ kind: ServerKind) async throws {
            try await StandardServer.run(kind) { server, _, database in
                let names = try await NameServer.start([Self.startTLS: .code(2)])
                let yaml = try Self.yaml(server, database, names)
                let worker = try LocalWorker(yaml: yaml)
                try await waitUntil("nothing is found") { worker.metrics.reconnects[.connectFailed].value >= 1 }
                names.set(Self.startTLS, .records([(3, 0, UInt16(server.ports.startTLS), "localhost.")]))
                try await waitUntil("the stream is bound") { worker.isLoggedIn }
                try await worker.stop()

                let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "t.yaml")
                    .configuration
                let outcomes = await ProbeSequence.sender(configuration, index: 0).run()
                guard case .passed(let detail)? = outcomes.first?.result else {
                    Issue.record("\(outcomes)")
                    return
                }
                let place = "localhost port \(server.ports.startTLS) (127.0.0.1), STARTTLS, found by the records of "
                #expect(detail.contains(place + Self.startTLS), "\(detail)")

                names.set(Self.startTLS, .records([(0, 0, 0, ".")]))
                let declined = await ProbeSequence.sender(configuration, index: 0).run()
                guard case .failed(let cause, _, let status)? = declined.first?.result else {
                    Issue.record("\(declined)")
                    return
                }
                #expect(cause.contains("offers no XMPP") && status == .unavailable, "\(cause)")
                try await names.stop()
            }
        }

        /// A port of 127.0.0.1 on which nobody listens.
        private static func closedPort() async throws -> Int {
            let names = try await NameServer.start([:])
            try await names.stop()
            return names.port
        }
    }
}
