import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// The whole way of a trace: from a device's message over the real worker to a webhook, a program and a plugin, and to a collector.
    @Suite(.timeLimit(.minutes(10))) struct TracingTests {
        private static let trace = "0af7651916cd43dd8448eb211c80319c"
        private static let parent = "00-\(trace)-b7ad6b7169203331-01"

        /// A program that notes what it is given of a trace.
        private static let script = """
            import json, sys
            with open(sys.argv[1], "a") as calls:
                for line in sys.stdin:
                    message = json.loads(line)
                    calls.write("%s %s\\n" % (message.get("traceparent"), message.get("tracestate")))
                    calls.flush()
                    print(json.dumps({"outcome": "done"}), flush=True)

            """

        private func handlers(_ stage: Stage, port: Int) throws -> String {
            let key = try stage.folder.write("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8, as: "key")
            let script = try stage.folder.write(Self.script.utf8, as: "handler.py")
            let calls = stage.folder.url.appending(path: "program").path
            return """
                - name: hook
                  categories: ["*"]
                  webhook: {url: "http://127.0.0.1:\(port)/hook", secret_file: \(key), allow_networks: ["127.0.0.0/8"]}
                - name: noted
                  categories: ["*"]
                  exec: {command: ["/usr/bin/python3", "\(script)", "\(calls)"]}
                - name: plugged
                  categories: ["*"]
                  plugin: {path: \(try PluginTests.build(stage)), configuration: "\(stage.folder.url.path)"}
                - {name: refusing, categories: ["*"], retry: {max_attempts: 1}, sql: {function: app.refuse}}
                """
        }

        private static let refuse = """
            CREATE SCHEMA app;
            CREATE FUNCTION app.refuse(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'FAKE-PAYLOAD'; END
            $$;
            """

        /// What the program (`program`) or the plugin (`traces`) has noted so far.
        private func calls(_ stage: Stage, _ file: String = "program") -> [String] {
            let text = try? String(contentsOf: stage.folder.url.appending(path: file), encoding: .utf8)
            return (text ?? "").split(separator: "\n").map(String.init)
        }

        @Test("A device's trace goes on to the webhook; a message without one has a trace by its key")
        func connected() async throws {
            try await Stage.run { stage in
                try await stage.database.script(Self.refuse)
                let receiver = try TraceReceiver(in: stage.folder)
                let headers = try stage.folder.write("Authorization: Bearer FAKE-TOKEN".utf8, as: "headers")
                var options = WorkerOptions()
                options.handlers = try handlers(stage, port: receiver.port)
                options.tracing = """
                    {endpoint: "http://127.0.0.1:\(receiver.port)", sample_ratio: 1, headers_file: \(headers)}
                    """
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: [
                    #"{"traceparent":"\#(Self.parent)","tracestate":"vendor=FAKE-1","secret":"FAKE-PAYLOAD"}"#,
                    #"{"traceparent":"\#(Self.parent.uppercased())","secret":"FAKE-PAYLOAD"}"#,
                ])
                try await stage.database.waitUntilHandled(2)
                // What waits in the queue is exported at the end.
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(try receiver.problems() == [])
                let spans = try receiver.spans()

                let receives = spans.filter { $0.name == "receive \(Stage.sender)" }
                let own = try #require(receives.first { $0.trace == Self.trace })
                let keyed = try #require(receives.first { $0.trace != Self.trace })
                #expect((own.parent, own.state) == ("b7ad6b7169203331", "vendor=FAKE-1"))
                #expect(own.attributes["messaging.message.id"] != nil && own.attributes["upstream.outcome"] == "stored")
                // A hostile context counts for nothing: the trace is the message's own, by its key.
                let key = try #require(keyed.attributes["messaging.message.id"])
                #expect(key == .text(Self.uuid(keyed.trace)) && keyed.parent.isEmpty)

                for receive in [own, keyed] {
                    try connects(receive, spans)
                    let attempts = spans.filter { $0.name == "process \(Stage.sender)" && $0.trace == receive.trace }
                    let groups = attempts.map { $0.attributes["messaging.consumer.group.name"] }
                    #expect(Set(groups) == ["hook", "noted", "plugged", "refusing"] && attempts.count == 4)
                    #expect(attempts.allSatisfy { $0.parent == (receive.parent.isEmpty ? receive.id : receive.parent) })
                    let hook = try #require(attempts.first { $0.attributes["messaging.consumer.group.name"] == "hook" })
                    let state = receive.parent.isEmpty ? nil : "vendor=FAKE-1"
                    let arrived = try #require(
                        try receiver.hooks().first { $0["traceparent"] == "00-\(hook.trace)-\(hook.id)-01" },
                        "the webhook got the context of its own attempt"
                    )
                    #expect(arrived["tracestate"] == state && arrived["webhook-id"] == Self.uuid(of: hook))
                    let noted = try #require(
                        attempts.first { $0.attributes["messaging.consumer.group.name"] == "noted" }
                    )
                    #expect(calls(stage).contains("00-\(noted.trace)-\(noted.id)-01 \(state ?? "None")"))
                    let plugged = try #require(
                        attempts.first { $0.attributes["messaging.consumer.group.name"] == "plugged" }
                    )
                    let given = "00-\(plugged.trace)-\(plugged.id)-01 \(state ?? "-")"
                    #expect(calls(stage, "traces").contains(given))
                    let failed = try #require(attempts.first { $0.status == 2 })
                    #expect(failed.attributes["upstream.outcome"] == "exhausted" && !failed.message.isEmpty)
                }
                #expect(try receiver.hooks().count == 2)
                // Tokens, ids, payloads and secrets stay here.
                let all = "\(spans)"
                for secret in ["FAKE-PAYLOAD", "FAKE-TOKEN", "FAKE-t", "\"m-0\"", "\"m-1\"", Stage.secret] {
                    #expect(!all.contains(secret), "\(secret)")
                }
                #expect(try receiver.exports().allSatisfy { $0["authorization"] == "Bearer FAKE-TOKEN" })
                #expect(try !worker.logText().contains("FAKE-TOKEN"))
            }
        }

        /// The batch of a message is linked to it, and holds a transaction and acks.
        private func connects(_ receive: ReceivedSpan, _ spans: [ReceivedSpan]) throws {
            let store = try #require(spans.first { $0.id == receive.links.first?.id })
            #expect(store.name == "store \(Stage.sender)" && store.trace == receive.links.first?.trace)
            #expect(store.links.contains { $0.trace == receive.trace })
            let children = spans.filter { $0.parent == store.id }.map(\.name)
            #expect(Set(children) == ["COMMIT", "ack \(Stage.sender)"])
            #expect(store.start <= receive.start && receive.end <= store.end)
        }

        private static func uuid(_ trace: String) -> String {
            var text = Array(trace)
            for place in [20, 16, 12, 8] { text.insert("-", at: place) }
            return String(text)
        }

        private static func uuid(of span: ReceivedSpan) -> String? {
            guard case .text(let text)? = span.attributes["messaging.message.id"] else { return nil }
            return text
        }

        @Test("Without a collector messages are received, acked and handled as ever, and the worker ends in time")
        func collectorAway() async throws {
            try await Stage.run { stage in
                let receiver = try TraceReceiver(in: stage.folder)
                var options = WorkerOptions()
                options.handlers = try handlers(stage, port: receiver.port)
                // Nobody listens there: neither an answer nor a refusal that would take its time.
                options.tracing = "{endpoint: \"http://127.0.0.1:\(try Socket.freePort())\", sample_ratio: 1}"
                try await stage.database.script(Self.refuse)
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: (0..<20).map { #"{"n":\#($0)}"# })
                try await stage.database.waitUntilHandled(20)
                try await stage.wait(for: "20 acks") { $0.tally.acked >= 20 }
                let begun = ContinuousClock.now
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(begun.duration(to: .now) < .seconds(20))
                #expect(try worker.events("tracing.export_failed").count == 1)
                #expect(try receiver.hooks().count == 20 && receiver.hooks().allSatisfy { $0["traceparent"] != nil })
            }
        }

        @Test("Where tracing is off, handlers get what they got before")
        func off() async throws {
            try await Stage.run { stage in
                let receiver = try TraceReceiver(in: stage.folder)
                var options = WorkerOptions()
                options.handlers = try handlers(stage, port: receiver.port)
                try await stage.database.script(Self.refuse)
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: [#"{"traceparent":"\#(Self.parent)"}"#])
                try await stage.database.waitUntilHandled(1)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(try receiver.hooks().map { $0["traceparent"] } == [nil])
                #expect(calls(stage) == ["None None"])
                #expect(try receiver.exports().isEmpty)
            }
        }
    }
}
