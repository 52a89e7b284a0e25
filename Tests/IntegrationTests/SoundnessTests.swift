import CCSEmulator
import Diagnosis
import Foundation
import IntegrationSupport
import Postgres
import Probing
import TLSWire
import Telemetry
import Testing
import UpstreamConfiguration
import Vocabulary
import Worker

extension Integration {
    /// What a running worker tells of itself, from which `doctor` and alerts find what is going to fail.
    @Suite struct SoundnessTests {
        private static let days = 86_400

        /// A server's certificate that ends in so many days, and a bit.
        private func identity(_ authority: CertificateAuthority, days: Int) throws -> TLSServerConfiguration {
            var request = CertificateRequest(dnsNames: ["localhost"], addresses: ["127.0.0.1"])
            request.validity = -3_600...(days * Self.days + 3_600)
            return try TLSServerConfiguration(authority.issue(request))
        }

        private func doctor(_ stage: Stage) async throws -> Diagnosis {
            let connection = try await PostgresConnection.open(PostgresSettings(url: stage.database.url))
            let diagnosis = try await Doctor(connection).examine()
            await connection.close()
            return diagnosis
        }

        @Test(
            "the end of a server's certificate is in the metrics, in the worker's row and, when it is near, in doctor"
        )
        func serverCertificate() async throws {
            let authority = try CertificateAuthority()
            for (days, isNear) in [(5, true), (60, false)] {
                try await Stage.run {
                    $0.identity = .server(try identity(authority, days: days))
                } _: { stage in
                    let options = WorkerOptions(connections: 1, authorityPEM: authority.certificatePEM)
                    try await stage.withWorker(options) { worker in
                        try await waitUntil("the row tells of the certificate") {
                            try await stage.database.integer(
                                """
                                SELECT count(*) FROM upstream.workers WHERE role = current_user
                                    AND certificates @> '[{"certificate": "server", "name": "\(Stage.sender)"}]'
                                """
                            ) == 1
                        }
                        let seen = try #require(worker.metrics.certificates.all.first)
                        let left = seen.end - .now
                        #expect(seen.kind == .server && seen.name == Stage.sender)
                        #expect(left > .seconds(days * Self.days) && left < .seconds(days * Self.days + 3_601))
                        let text = String(decoding: worker.metrics.render(), as: UTF8.self)
                        let name = "upstream_certificate_end_timestamp_seconds"
                        #expect(text.contains("\(name){certificate=\"server\",name=\"\(Stage.sender)\"} "))
                        let finding = try await doctor(stage).findings.first { $0.name == .certificateEnding }
                        let words = "the certificate of the server of sender \(Stage.sender) ends in 5 d"
                        #expect(finding?.text == (isNear ? words : nil))
                    }
                }
            }
        }

        @Test(
            "check --connect says when the certificates of servers, webhooks and the console end, and warns of those that do soon"
        )
        func check() async throws {
            let authority = try CertificateAuthority()
            try await Stage.run {
                $0.identity = .server(try identity(authority, days: 5))
            } _: { stage in
                let ca = try stage.folder.write(authority.certificatePEM, as: "authority.pem")
                let request = CertificateRequest(dnsNames: ["c"], validity: -7_200 ... -3_600)
                let console = try stage.folder.write(try authority.issue(request).chainPEM, as: "console.pem")
                let key = try stage.folder.write("whsec_RkFLRS1rZXktb2YtdGVzdHMtMzItYnl0ZXM=\n".utf8, as: "whsec")
                func hook(_ name: String, _ ca: String, _ port: Int) -> String {
                    """
                          - name: \(name)
                            categories: ["*"]
                            webhook: {url: "https://127.0.0.1:\(port)/", secret_file: \(key), allow_networks: ["127.0.0.0/8"]\(ca)}

                    """
                }
                let handlers =
                    hook("good", ", ca_file: \(ca)", stage.emulator.port) + hook("stranger", "", stage.emulator.port)
                    + hook("away", ", ca_file: \(ca)", 1)
                let options = WorkerOptions(authorityPEM: authority.certificatePEM, handlers: handlers)
                let yaml =
                    try stage.yaml(options) + "console: {tls: {certificate_file: \(console), key_file: \(key)}}\n"
                let configuration = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "w.yaml")
                    .configuration
                var results: [String: Probe.Result] = [:]
                for sequence in ProbeSequence.all(configuration) where sequence.subject != "database" {
                    await sequence.run { results["\(sequence.subject): \($0.step)"] = $0.result }
                }
                func warning(_ step: String) -> String? {
                    guard case .warned(let cause, _)? = results[step] else { return nil }
                    return cause
                }
                let sender = "sender \(Stage.sender): TCP, TLS, SASL, bind"
                #expect(
                    warning(sender)?.hasPrefix("the server's certificate ends in 5 d; bound at") == true,
                    "\(results)"
                )
                #expect(warning("handler good: certificate") == "the endpoint's certificate ends in 5 d")
                #expect(warning("handler away: certificate")?.hasPrefix("no connection to the endpoint") == true)
                guard case .failed(let cause, let fix, _)? = results["handler stranger: certificate"] else {
                    Issue.record("\(results)")
                    return
                }
                #expect(cause.contains("not trusted here") && fix.contains("webhook.ca_file"), "\(cause)")
                #expect(warning("console: certificate") == "the certificate in \(console) ended 60 min ago")
            }
        }

        @Test("a program that answers retry to everything is found by doctor, until it does its work")
        func onlyRetries() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 25)
            } _: { stage in
                let flag = stage.folder.url.appending(path: "works").path
                let program = try stage.folder.write(
                    """
                    #!/bin/sh
                    while read -r line; do
                        if [ -e \(flag) ]; then echo '{"outcome":"done"}'; else echo '{"outcome":"retry","after":"1s"}'; fi
                    done

                    """.utf8,
                    as: "legacy"
                )
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
                let handlers = """
                      - name: legacy
                        categories: ["*"]
                        exec: {command: [\(program)]}

                    """
                try await stage.withWorker(WorkerOptions(connections: 1, handlers: handlers)) { _ in
                    try await stage.waitUntilComplete()
                    try await waitUntil("each was tried") {
                        try await stage.database.integer(
                            "SELECT count(*) FROM upstream.workers WHERE (handlers->0->>'failed_in_row')::int >= 25"
                        ) == 1
                    }
                    let finding = try await doctor(stage).findings.first { $0.name == .handlerNeverDone }
                    #expect(finding?.text.hasPrefix("handler legacy has failed its last ") == true)
                    _ = FileManager.default.createFile(atPath: flag, contents: nil)
                    try await waitUntil("the handler works") {
                        try await stage.database.integer(
                            "SELECT count(*) FROM upstream.workers WHERE (handlers->0->>'failed_in_row')::int = 0"
                        ) == 1
                    }
                    #expect(try await doctor(stage).findings.allSatisfy { $0.name != .handlerNeverDone })
                }
            }
        }
    }
}
