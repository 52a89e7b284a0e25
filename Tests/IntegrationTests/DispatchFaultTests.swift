import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// Messages that their handlers can't take, among others that they can.
    @Suite struct DispatchFaultTests {
        /// An endpoint that answers with the status that the message names, or hangs.
        private static let endpoint = """
            import http.server, json, socketserver, sys, time
            class Endpoint(http.server.BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"
                def log_message(self, *arguments): pass
                def do_POST(self):
                    data = json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]
                    if "hang" in data: time.sleep(600)
                    self.send_response(data["status"])
                    self.send_header("content-length", "0")
                    self.end_headers()
            class Server(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
            Server(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()

            """

        /// Runs a worker whose webhook is the endpoint above, with more of the handler's and the webhook's options.
        private func withEndpoint(
            retry: String = "{}",
            options text: String,
            _ body: (Stage, ChildWorker) async throws -> Void
        ) async throws {
            try await Stage.run { stage in
                let port = try Socket.freePort()
                let script = try stage.folder.write(Self.endpoint.utf8, as: "endpoint.py")
                let endpoint = try Helper("/usr/bin/python3", [script, "\(port)"])
                try await Helper.waitUntilListening(on: port)
                let secret = try stage.folder.write("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8, as: "orders.secret")
                var options = WorkerOptions()
                options.handlers = """
                    - name: orders
                      categories: ["com.example.orders"]
                      retry: \(retry)
                      webhook: {url: "http://127.0.0.1:\(port)/", secret_file: \(secret), allow_networks: ["127.0.0.0/8"]\(text)}
                    """
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await body(stage, worker)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                _ = endpoint
            }
        }

        /// Sends 40 messages that fail, then five that don't, and lets the worker take them.
        private func run(
            poison: [String],
            options: String,
            until isReady: (ChildWorker) async throws -> Bool,
            _ body: (Stage, ChildWorker) async throws -> Void
        ) async throws {
            let retry = "{max_attempts: 1000, initial: 50ms, maximum: 1s}"
            try await withEndpoint(retry: retry, options: options) { stage, worker in
                try await stage.send(data: (0..<40).map { poison[$0 % poison.count] }, idPrefix: "poison")
                try await waitUntil("they have failed") { try await isReady(worker) }
                try await stage.send(data: (0..<5).map { _ in #"{"status":200}"# }, idPrefix: "good")
                try await waitUntil("the good ones are handled") { try await worker.deliveries("orders", "done") == 5 }
                try await body(stage, worker)
            }
        }

        @Test("40 messages that an endpoint refuses with 4xx hold no other back, and open no breaker")
        func refused() async throws {
            try await run(
                poison: [#"{"status":400}"#, #"{"status":422}"#],
                options: "",
                until: { try await $0.deliveries("orders", "retry") >= 40 },
                { stage, worker async throws in
                    try await waitUntil("they are tried on and on") {
                        try await worker.deliveries("orders", "retry") >= 200
                    }
                    #expect(try await stage.database.waitingDeliveries() == 40)
                    #expect(try worker.events("handler.failing").isEmpty)
                }
            )
        }

        @Test("40 messages at which an endpoint hangs, or fails with 500, hold no other back for long")
        func hanging() async throws {
            try await run(
                poison: [#"{"hang":1}"#, #"{"status":500}"#],
                options: ", timeout: 200ms",
                // The breaker has opened, and opened again after a probe.
                until: { try $0.events("handler.failing").count >= 2 },
                { stage, _ async throws in
                    try await waitUntil("only the bad ones are left") {
                        try await stage.database.waitingDeliveries() == 40
                    }
                }
            )
        }

        @Test("statuses in reject_statuses make a message a dead letter at once")
        func rejected() async throws {
            try await withEndpoint(options: ", reject_statuses: [410, 422]") { stage, _ in
                try await stage.send(data: [#"{"status":422}"#, #"{"status":200}"#, #"{"status":410}"#])
                try await stage.database.waitUntilHandled(3)
                let dead = ["orders|1|webhook status 422", "orders|1|webhook status 410"]
                #expect(try await stage.database.deadLetters() == dead)
            }
        }

        @Test("programs of exec handlers end with a worker that is killed", arguments: ["stream", "once"])
        func killed(_ mode: String) async throws {
            try await Stage.run { stage in
                let file = stage.folder.url.appending(path: "pids")
                // Its standard input is gone with the worker: only one that does not look at it stays.
                let script =
                    "import os, time; f = open('\(file.path)', 'a'); f.write('%d\\n' % os.getpid()); f.close(); time.sleep(600)"
                let path = try stage.folder.write(script.utf8, as: "stays.py")
                var options = WorkerOptions()
                options.handlers = """
                    - {name: stays, categories: ["*"], exec: {command: ["/usr/bin/python3", "\(path)"], mode: \(mode)}}
                    """
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.send(data: ["{}", "{}"])
                func processes() -> [Int32] {
                    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
                    return text.split(separator: "\n").compactMap { Int32($0) }
                }
                try await waitUntil("both run") { processes().count == 2 }
                worker.send(SIGKILL)
                #expect(try await worker.exitCode() == -SIGKILL)
                try await waitUntil("both have ended") {
                    processes().allSatisfy { pid in
                        let stat = (try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)) ?? ""
                        // A zombie waits for init, which a container may not have.
                        return stat.isEmpty || stat.contains(") Z ")
                    }
                }
            }
        }
    }
}
