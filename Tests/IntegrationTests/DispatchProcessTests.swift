import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// Handlers in workers that are killed, stopped, and ended in order.
    @Suite struct DispatchProcessTests {
        /// An exec handler that notes each call as `key worker`, and on wish waits for a file `gate-<worker>`.
        private static let script = """
            import json, os, sys, time
            folder = sys.argv[1]
            calls = os.open(folder + "/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            worker = os.getppid()
            for line in sys.stdin:
                message = json.loads(line)
                os.write(calls, f"{message['message_key']} {worker}\\n".encode())
                if isinstance(message["data"], dict) and message["data"].get("hold"):
                    while not os.path.exists(f"{folder}/gate-{worker}"):
                        if os.getppid() != worker: sys.exit()
                        time.sleep(0.01)
                print(json.dumps({"outcome": "done"}), flush=True)

            """

        private struct Call: Hashable {
            var key: Substring
            var worker: Int32
        }

        private func exec(_ stage: Stage) throws -> String {
            let script = try stage.folder.write(Self.script.utf8, as: "handler.py")
            let command = #"["/usr/bin/python3", "\#(script)", "\#(stage.folder.url.path)"]"#
            return #"- {name: noted, categories: ["*"], exec: {command: \#(command)}}"#
        }

        private func calls(_ stage: Stage) -> [Call] {
            let text = (try? String(contentsOf: stage.folder.url.appending(path: "calls"), encoding: .utf8)) ?? ""
            return text.split(separator: "\n").compactMap { line in
                let words = line.split(separator: " ")
                guard words.count == 2, let worker = Int32(words[1]) else { return nil }
                return Call(key: words[0], worker: worker)
            }
        }

        private func open(_ stage: Stage, gateOf worker: ChildWorker) throws {
            _ = try stage.folder.write([], as: "gate-\(worker.processID)")
        }

        private static let taken = """
            CREATE SCHEMA app;
            CREATE TABLE app.taken (place bigserial, message_key uuid, device_key uuid, received_at timestamptz);
            CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql AS $$
                INSERT INTO app.taken (message_key, device_key, received_at)
                VALUES (message.message_key, message.device_key, message.received_at)
            $$;
            """

        // MARK: Killed

        @Test("kill -9 again and again: every handler gets every message, a sql function exactly once (G6)")
        func killed() async throws {
            let count = 2_000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 1
                $0.load.rate = 1_000
            } _: { stage in
                try await stage.database.script(Self.taken)
                var options = WorkerOptions(lease: "1s")
                options.handlers = """
                    - {name: once, categories: ["*"], sql: {function: app.take}}
                    \(try exec(stage))
                    """
                let yaml = try stage.yaml(options)
                var worker = try ChildWorker(yaml: yaml, in: stage.folder)
                var unrecorded: [[String: Any]] = []
                for acked in [200, 500, 900, 1_300] {
                    try await stage.wait(for: "\(acked) acks") { $0.tally.acked >= acked }
                    worker.send(SIGKILL)
                    #expect(try await worker.exitCode() == -SIGKILL)
                    unrecorded += try worker.events("delivery.attempts_unrecorded")
                    worker = try ChildWorker(yaml: yaml, in: stage.folder)
                }
                try await stage.waitUntilComplete()
                try await stage.database.waitUntilHandled(count)
                // A history that is locked for a second, on a slow machine, is not waited for, and the worker says so.
                unrecorded += try worker.events("delivery.attempts_unrecorded")
                if !unrecorded.isEmpty { print("without history for a while: \(unrecorded)") }
                #expect(try await stage.database.count("messages") == count)
                #expect(try await stage.database.count("dead_letters") == 0)
                let taken = "SELECT count(*) FROM app.taken"
                #expect(try await stage.database.integer(taken) == count, "not more than once")
                #expect(try await stage.database.integer("SELECT count(DISTINCT message_key) FROM app.taken") == count)
                #expect(Set(calls(stage).map(\.key)).count == count, "at least once")
                for handler in ["once", "noted"] {
                    let done =
                        "SELECT count(*) FROM upstream.attempts WHERE outcome = 'done' AND handler = '\(handler)'"
                    let attempts = try await stage.database.integer(done)
                    #expect(attempts == count || attempts < count && !unrecorded.isEmpty, "one for each settlement")
                    let keys = done.replacingOccurrences(of: "count(*)", with: "count(DISTINCT message_key)")
                    #expect(try await stage.database.integer(keys) == attempts)
                }
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        // MARK: Two workers

        /// Two workers that only dispatch, and one that only receives.
        private func withThree(
            count: Int,
            lease: String = "2s",
            _ body: (Stage, _ first: ChildWorker, _ second: ChildWorker) async throws -> Void
        ) async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: count)
            } _: { stage in
                var options = WorkerOptions(lease: lease)
                options.handlers = try exec(stage)
                let yaml = try stage.yaml(options)
                let first = try ChildWorker(yaml: yaml, in: stage.folder, ["--roles", "dispatch"])
                let second = try ChildWorker(yaml: yaml, in: stage.folder, ["--roles", "dispatch"])
                try await waitUntil("the handler is subscribed") {
                    try await stage.database.count("subscriptions") == 1
                }
                let receiver = try ChildWorker(yaml: yaml, in: stage.folder, ["--roles", "receive"])
                if count > 0 { try await stage.waitUntilComplete() }
                try await body(stage, first, second)
                receiver.send(SIGTERM)
                #expect(try await receiver.exitCode() == 0)
            }
        }

        /// Sends a message whose handler waits, and tells which worker has it.
        private func hold(
            _ stage: Stage,
            _ first: ChildWorker,
            _ second: ChildWorker
        ) async throws -> (holder: ChildWorker, other: ChildWorker) {
            try await stage.send(data: [#"{"hold":true}"#])
            try await waitUntil("a worker has it") { calls(stage).count == 1 }
            let isFirst = calls(stage)[0].worker == first.processID
            return isFirst ? (first, second) : (second, first)
        }

        @Test("two workers share what a third receives, and no delivery runs twice while leases hold")
        func shared() async throws {
            let count = 3_000
            // Long enough for a machine that runs neither worker for seconds.
            try await withThree(count: count, lease: "60s") { stage, first, second in
                try await stage.database.waitUntilHandled(count)
                let calls = calls(stage)
                #expect(calls.count == count && Set(calls.map(\.key)).count == count)
                #expect(Set(calls.map(\.worker)) == [first.processID, second.processID])
                for worker in [first, second] {
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
            }
        }

        @Test("a long call keeps its lease; what a killed worker had, another takes over")
        func takenOver() async throws {
            try await withThree(count: 0) { stage, first, second in
                let (holder, other) = try await hold(stage, first, second)
                // Half as long again as the lease: only heartbeats keep the other worker away.
                let start = "SELECT extract(epoch FROM now())::bigint"
                let now = try await stage.database.integer(start)
                try await waitUntil("the lease would have ended") { try await stage.database.integer(start) >= now + 4 }
                #expect(calls(stage).count == 1)
                holder.send(SIGKILL)
                #expect(try await holder.exitCode() == -SIGKILL)
                try await waitUntil("the other has it") { calls(stage).count == 2 }
                #expect(calls(stage)[1].worker == other.processID)
                try open(stage, gateOf: other)
                try await stage.database.waitUntilHandled(1)
                other.send(SIGTERM)
                #expect(try await other.exitCode() == 0)
            }
        }

        @Test("a worker that was paused past its lease can't complete what another has taken over")
        func paused() async throws {
            try await withThree(count: 0) { stage, first, second in
                let (holder, other) = try await hold(stage, first, second)
                holder.send(SIGSTOP)
                try await waitUntil("the other has it") { calls(stage).count == 2 }
                #expect(calls(stage)[1].worker == other.processID)
                // The paused worker's handler is done, and its worker finds that out when it wakes up.
                try open(stage, gateOf: holder)
                holder.send(SIGCONT)
                try await waitUntil("it has noticed") {
                    let isIgnored = try !holder.events("delivery.lease_lost").isEmpty
                    let released = try await holder.deliveries("noted", "released")
                    return isIgnored || released == 1
                }
                #expect(try await stage.database.waitingDeliveries() == 1, "the other's, still running")
                let free = "SELECT count(*) FROM upstream.deliveries WHERE lease_owner IS NULL"
                #expect(try await stage.database.integer(free) == 0)
                try open(stage, gateOf: other)
                try await stage.database.waitUntilHandled(1)
                #expect(try await other.deliveries("noted", "done") == 1)
                for worker in [first, second] {
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
            }
        }

        @Test("a shutdown cuts a long call short without counting an attempt, and exits 0 within its grace (G7)")
        func shutdown() async throws {
            try await withThree(count: 0) { stage, first, second in
                let (holder, other) = try await hold(stage, first, second)
                other.send(SIGTERM)
                #expect(try await other.exitCode() == 0)
                holder.send(SIGTERM)
                #expect(try await holder.exitCode() == 0)
                let rows = try await stage.database.texts(
                    "SELECT attempts || ',' || crashes || ',' || coalesce(lease_owner, '-') FROM upstream.deliveries"
                )
                #expect(rows == ["0,0,-"])
            }
        }

        // MARK: Order and isolation

        @Test("by device: in arrival order, whatever number of connections, writers and slots is at work")
        func ordered() async throws {
            let count = 3_000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 3
                $0.load.devices = 20
            } _: { stage in
                try await stage.database.script(Self.taken)
                var options = WorkerOptions(connections: 3)
                options.handlers = """
                    - {name: ordered, categories: ["*"], ordering: device, concurrency: 8, sql: {function: app.take}}
                    """
                let yaml = try stage.yaml(options)
                    .replacing("database:\n", with: "database:\n  writers: 4\n  batch_limit: 7\n")
                let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                try await stage.waitUntilComplete()
                try await stage.database.waitUntilHandled(count)
                let wrong = try await stage.database.integer(
                    """
                    SELECT count(*) FROM (
                        SELECT received_at < lag(received_at) OVER (PARTITION BY device_key ORDER BY place) AS is_wrong
                        FROM app.taken
                    ) AS step WHERE is_wrong
                    """
                )
                #expect(wrong == 0)
                #expect(try await stage.database.integer("SELECT count(*) FROM app.taken") == count)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("handlers that hang, crash and flood the log delay no ack and no other handler (G6)")
        func isolated() async throws {
            let count = 500
            try await Stage.run {
                $0.load = LoadProfile(count: count)
            } _: { stage in
                try await stage.database.script(Self.taken)
                let flood = try stage.folder.write(
                    "import os, sys\nwhile True: os.write(2, b'x' * 4096)\n".utf8,
                    as: "flood.py"
                )
                var options = WorkerOptions()
                options.handlers = """
                    - {name: hanging, categories: ["*"], exec: {command: ["/bin/sleep", "3600"]}}
                    - {name: crashing, categories: ["*"], exec: {command: ["/bin/false"]}}
                    - {name: missing, categories: ["*"], exec: {command: ["/nowhere/program"]}}
                    - {name: flooding, categories: ["*"], exec: {command: ["/usr/bin/python3", "\(flood)"]}}
                    - {name: well, categories: ["*"], sql: {function: app.take}}
                    """
                let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
                try await stage.waitUntilComplete()
                try await waitUntil("the handler that works is through") {
                    try await stage.database.integer("SELECT count(*) FROM app.taken") == count
                }
                let others = ["hanging", "crashing", "missing", "flooding"]
                for name in others {
                    // The last of them may be in blocks for half a second.
                    let left = "SELECT count(*) FROM upstream.deliveries WHERE handler = '\(name)'"
                    try await waitUntil("\(name) has taken none") { try await stage.database.integer(left) == count }
                }
                // 50 lines a second at most, whatever the program writes.
                #expect(try worker.events("handler.output").count < 10_000)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }
    }
}
