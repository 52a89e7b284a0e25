import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// The history of attempts that a whole worker writes, for each kind of handler.
    @Suite struct AttemptKindTests {
        /// Does what the message asks for; a second attempt always succeeds.
        private static let program = """
            import json, sys
            for line in sys.stdin:
                message = json.loads(line)
                want = message["data"]["want"]
                answer = {"outcome": "done"}
                if want == "reject": answer = {"outcome": "reject", "reason": "never"}
                if want == "retry" and message["attempt"] == 1: answer = {"outcome": "retry", "after": "10ms"}
                print(json.dumps(answer), flush=True)

            """

        /// The same over HTTP, with statuses.
        private static let receiver = """
            import json, sys
            from http.server import BaseHTTPRequestHandler, HTTPServer
            seen = set()
            class Receiver(BaseHTTPRequestHandler):
                def do_POST(self):
                    event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                    want = event["data"]["want"]
                    first = event["id"] not in seen
                    seen.add(event["id"])
                    self.send_response(422 if want == "reject" else 409 if want == "retry" and first else 204)
                    self.end_headers()
                def log_message(self, *_): pass
            HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()

            """

        private static let function = """
            CREATE SCHEMA app;
            CREATE SEQUENCE app.calls;
            CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                IF message.data->>'want' = 'reject' THEN RAISE EXCEPTION 'reject: never'; END IF;
                IF message.data->>'want' = 'retry' AND nextval('app.calls') = 1 THEN RAISE EXCEPTION 'not yet'; END IF;
            END $$;
            """

        private func handlers(_ stage: Stage, port: Int) throws -> String {
            let program = try stage.folder.write(Self.program.utf8, as: "handler.py")
            let secret = try stage.folder.write("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8, as: "hook.secret")
            return """
                - {name: sql, categories: ["*"], retry: {initial: 10ms}, sql: {function: app.take}}
                - {name: exec, categories: ["*"], retry: {initial: 10ms}, exec: {command: ["/usr/bin/python3", "\(program)"]}}
                - {name: log, categories: ["*"], log: {}}
                - name: webhook
                  categories: ["*"]
                  retry: {initial: 10ms}
                  webhook:
                    url: "http://127.0.0.1:\(port)/"
                    secret_file: \(secret)
                    reject_statuses: [422]
                    allow_networks: ["127.0.0.0/8"]
                """
        }

        private static let history = """
            SELECT concat_ws(' ', m.message_id, a.handler, a.attempt, a.outcome, a.status, a.error_group)
            FROM upstream.attempts AS a JOIN upstream.messages AS m USING (message_key)
            ORDER BY a.handler, m.message_id, a.attempt
            """

        @Test("success, retry and success, and a dead letter leave exactly their rows, whatever runs the handler")
        func kinds() async throws {
            try await Stage.run { stage in
                try await stage.database.script(Self.function)
                let port = try Socket.freePort()
                let script = try stage.folder.write(Self.receiver.utf8, as: "receiver.py")
                let receiver = try Helper("/usr/bin/python3", [script, "\(port)"])
                try await Helper.waitUntilListening(on: port)
                let options = WorkerOptions(handlers: try handlers(stage, port: port))
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: [#"{"want":"done"}"#, #"{"want":"retry"}"#, #"{"want":"reject"}"#])
                try await stage.database.waitUntilHandled(3)
                let lines = try await stage.database.texts(Self.history)
                #expect(
                    lines == [
                        "m-0 exec 1 done",
                        "m-1 exec 1 retry retry asked for", "m-1 exec 2 done",
                        "m-2 exec 1 rejected never",
                        "m-0 log 1 done", "m-1 log 1 done", "m-2 log 1 done",
                        "m-0 sql 1 done",
                        "m-1 sql 1 retry sql P0001", "m-1 sql 2 done",
                        "m-2 sql 1 rejected never",
                        "m-0 webhook 1 done",
                        "m-1 webhook 1 retry 409 webhook status 409", "m-1 webhook 2 done",
                        "m-2 webhook 1 rejected 422 webhook status 422",
                    ]
                )
                let own = "SELECT count(*) FROM upstream.attempts WHERE worker LIKE '%:\(worker.processID)'"
                #expect(try await stage.database.integer(own) == lines.count)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                _ = receiver
            }
        }

        @Test("retention.attempts of 0 writes none")
        func off() async throws {
            let count = 300
            try await Stage.run {
                $0.load = LoadProfile(count: count)
            } _: { stage in
                let options = WorkerOptions(handlers: #"- {name: log, categories: ["*"], log: {}}"#)
                let yaml = try stage.yaml(options) + "retention: {attempts: 0s}\n"
                let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                try await stage.waitUntilComplete()
                try await stage.database.waitUntilHandled(count)
                #expect(try await stage.database.count("attempt_batches") == 0)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("a worker whose schema goes back a step, and comes again, loses nothing but history (G6)")
        func withoutTheTable() async throws {
            let count = 2_000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 1_000
            } _: { stage in
                let options = WorkerOptions(handlers: #"- {name: log, categories: ["*"], log: {}}"#)
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await waitUntil("some history") { try await stage.database.count("attempts") > 100 }
                try await stage.database.script("ALTER TABLE upstream.attempt_batches RENAME TO former")
                try await worker.waitForEvent("delivery.attempts_unrecorded")
                try await stage.waitUntilComplete()
                try await stage.database.waitUntilHandled(count)
                #expect(try await stage.database.count("dead_letters") == 0)
                #expect(try await worker.deliveries("log", "done") == count)
                #expect(try worker.events("delivery.attempts_unrecorded").count == 1)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }
    }
}
