import Foundation
import Probing
import Testing
import Vocabulary

extension Integration {
    /// Signing in to a server that shares no line with ours, and what becomes of it with somebody in between.
    @Suite struct SignInTests {
        private static let scram = ["SCRAM-SHA-1", "SCRAM-SHA-256"]
        private static let plus = ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-256-PLUS"]

        static func passed(_ result: Probe.Result) throws -> String {
            guard case .passed(let detail) = result else { throw SignInStage.Unexpected(result: result) }
            return detail
        }

        static func failed(_ result: Probe.Result) throws -> (cause: String, status: Vocabulary.ExitStatus) {
            guard case .failed(let cause, _, let status) = result else { throw SignInStage.Unexpected(result: result) }
            #expect(!cause.contains(ScramTool.secret))
            return (cause, status)
        }

        @Test(
            "a server of pyOpenSSL's sees our proof bound to the connection by each type, and the check says so",
            arguments: [
                ("tls-exporter", "1.3"), ("tls-server-end-point", "1.3"), ("tls-exporter", "1.2"),
                ("tls-unique", "1.2"),
            ]
        )
        func channelBinding(_ kind: String, _ version: String) async throws {
            let stage = try SignInStage()
            let options: [String: Any] = [
                "types": [kind], "list": ["x-other", kind], "maximum": version, "ssdp": true,
            ]
            let server = try await stage.serve(Self.scram + Self.plus, options)
            let detail = try Self.passed(try await stage.check(server.port))
            #expect(server.lines.contains("authenticated SCRAM-SHA-256-PLUS \(kind) TLSv\(version)"), "\(server.lines)")
            #expect(detail.contains("TLS: TLSv\(version)"), "\(detail)")
            #expect(
                detail.contains("signed in: SCRAM-SHA-256-PLUS, bound to the TLS connection by \(kind)"),
                "\(detail)"
            )
            #expect(detail.contains("offered channel bindings: \(kind)"), "\(detail)")
            try await server.stop()
        }

        @Test("somebody in between, whose certificate we trust, is refused: our proof is for another TLS connection")
        func betweenWithAnotherKey() async throws {
            for kind in ["tls-exporter", "tls-server-end-point"] {
                let stage = try SignInStage()
                let server = try await stage.serve(Self.scram + Self.plus, ["types": [kind], "list": [kind]])
                let relay = try await stage.start("relay", ["port": server.port])
                let (cause, status) = try Self.failed(try await stage.check(relay.port))
                #expect(status == .refused && cause.contains("in the server's place"), "\(cause)")
                #expect(server.lines.contains("refused: the client sees another TLS connection"), "\(server.lines)")
                #expect(relay.lines.contains("between TLSv1.3 TLSv1.3"))
                // The same server, without anybody in between.
                _ = try Self.passed(try await stage.check(server.port))
                try await relay.stop()
                try await server.stop()
            }
        }

        @Test("a server that offers SASL2 is signed in to on one stream, and its word on who we are is checked")
        func extensible() async throws {
            let stage = try SignInStage()
            let types = ["tls-exporter"]
            for (isExtensible, streams) in [(true, 1), (false, 2)] {
                let options: [String: Any] = ["types": types, "list": types, "sasl2": isExtensible, "ssdp": true]
                let server = try await stage.serve(Self.scram + Self.plus, options)
                #expect(try Self.passed(try await stage.check(server.port)).contains("SCRAM-SHA-256-PLUS"))
                let begun = server.lines.filter { $0.hasPrefix("stream ") }
                #expect(begun == Array(repeating: "stream \(SignInStage.user)@chat.example", count: streams))
                #expect(server.lines.last == "bound")
                try await server.stop()
            }
            let other = try await stage.serve(Self.scram, ["sasl2": true, "identity": "1234567890@other.example"])
            #expect(try Self.failed(try await stage.check(other.port)).cause.contains("nobody of this domain"))
            #expect(other.lines.last == "authenticated SCRAM-SHA-256 none TLSv1.3")
            try await other.stop()
        }

        @Test("somebody in between who hides channel binding is noticed by the server, which our flag tells")
        func bindingHidden() async throws {
            let stage = try SignInStage()
            let types = ["tls-exporter", "tls-server-end-point"]
            let server = try await stage.serve(Self.scram + Self.plus, ["types": types, "list": types])
            let hide = ["<mechanism>[A-Z0-9-]*-PLUS</mechanism>", "<sasl-channel-binding.*</sasl-channel-binding>"]
            let relay = try await stage.start("relay", ["port": server.port, "hide": hide])
            let (cause, status) = try Self.failed(try await stage.check(relay.port))
            #expect(status == .refused && cause.contains("off its list"), "\(cause)")
            #expect(
                server.lines.contains("refused: the client takes us for a server without channel binding"),
                "\(server.lines)"
            )
            try await relay.stop()
            // Half of it hidden never leaves us: the one half gives the other away.
            for pattern in [hide[0], "(?<=type=')tls-"] {
                let relay = try await stage.start("relay", ["port": server.port, "hide": [pattern]])
                let before = server.lines.count
                #expect(try Self.failed(try await stage.check(relay.port)).cause.contains("its list"), "\(pattern)")
                #expect(
                    server.lines.dropFirst(before).allSatisfy { !$0.contains("refused") && !$0.contains("authent") }
                )
                try await relay.stop()
            }
            try await server.stop()
        }

        @Test("where binding is required, a hidden offer ends the sign-in before anything is proven")
        func bindingRequired() async throws {
            let stage = try SignInStage()
            let types = ["tls-exporter"]
            let server = try await stage.serve(Self.scram + Self.plus, ["types": types, "list": types])
            let hide = ["<mechanism>[A-Z0-9-]*-PLUS</mechanism>", "<sasl-channel-binding.*</sasl-channel-binding>"]
            let relay = try await stage.start("relay", ["port": server.port, "hide": hide])
            let required = "channel_binding: required"
            let (cause, _) = try Self.failed(try await stage.check(relay.port, more: required))
            #expect(cause.contains("`channel_binding: required`") && cause.contains("SCRAM-SHA-256"), "\(cause)")
            #expect(server.lines.allSatisfy { !$0.contains("refused") && !$0.contains("authent") }, "\(server.lines)")
            try await relay.stop()
            let detail = try Self.passed(try await stage.check(server.port, more: required))
            #expect(detail.contains("signed in: SCRAM-SHA-256-PLUS"), "\(detail)")
            try await server.stop()
        }

        @Test("somebody in between who hides a stronger mechanism is noticed where the server knows XEP-0474")
        func mechanismsHidden() async throws {
            let stage = try SignInStage()
            let server = try await stage.serve(Self.scram + ["PLAIN"], ["ssdp": true])
            let hide = ["<mechanism>SCRAM-SHA-256</mechanism>"]
            let relay = try await stage.start("relay", ["port": server.port, "hide": hide])
            let (cause, status) = try Self.failed(try await stage.check(relay.port))
            #expect(status == .refused && cause.contains("XEP-0474"), "\(cause)")
            #expect(!server.lines.contains { $0.hasPrefix("authenticated") }, "\(server.lines)")
            try await relay.stop()
            let greedy = try await stage.start(
                "relay",
                ["port": server.port, "hide": ["<mechanism>SCRAM[^<]*</mechanism>"]]
            )
            #expect(try Self.failed(try await stage.check(greedy.port)).cause.contains("`allow_plain: true`"))
            try await greedy.stop()
            #expect(try Self.passed(try await stage.check(server.port)).contains("signed in: SCRAM-SHA-256"))
            try await server.stop()
        }
    }
}
