import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// `Examples/devices`: what people copy must keep its promise.
    @Suite struct DeviceExampleTests {
        private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Examples/devices")

        /// Runs one of the programs beside the test.
        private static func start(
            _ program: String,
            _ arguments: [String],
            log: String,
            in scenario: ServerScenario
        ) throws -> ServerProcess {
            try ServerProcess(
                [try TestTools.python(), folder.appending(path: program).path] + arguments,
                log: scenario.server.scratch.url.appending(path: log).path,
                ["PYTHONDONTWRITEBYTECODE": "1"]
            )
        }

        private static func device(
            _ program: String,
            _ outbox: String,
            in scenario: ServerScenario,
            to address: String? = nil
        ) throws -> ServerProcess {
            let server = scenario.server
            let password = try server.scratch.write(StandardServer.secret.utf8, as: "device-password")
            let account = "\(StandardServer.peer)@\(StandardServer.domain)"
            return try start(
                program,
                ["127.0.0.1:\(server.ports.direct)", server.authorityFile, account, password]
                    + [address ?? scenario.device.address, outbox, "--until-empty", "--resend", "2"],
                log: "device.log",
                in: scenario
            )
        }

        /// Puts messages into the outbox, by the program that does it for shell scripts, and gives their ids.
        private static func put(
            _ numbers: ClosedRange<Int>,
            _ outbox: String,
            in scenario: ServerScenario
        ) async throws
            -> [String]
        {
            let log = "put-\(numbers.lowerBound).log"
            let process = try start("outbox.py", [outbox, "com.example"], log: log, in: scenario)
            try process.write(numbers.map { "{\"n\":\($0)}\n" }.joined())
            let file = scenario.server.scratch.url.appending(path: log)
            try await waitUntil("the outbox has them") {
                try String(contentsOf: file, encoding: .utf8).split(separator: "\n").count == numbers.count
            }
            try await process.stop()
            return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
        }

        @Test(
            "a device that is killed, behind a server and before a worker that are killed too, loses and doubles nothing",
            arguments: ServerKind.allCases,
            ["plain_device.py", "slixmpp_device.py"]
        )
        func everythingEnds(_ kind: ServerKind, _ program: String) async throws {
            try await ServerScenario.run(kind, as: .component, ownServer: true) { scenario in
                let outbox = scenario.server.scratch.url.appending(path: "outbox.db").path
                var ids = try await Self.put(1...200, outbox, in: scenario)
                let worker = try await scenario.startWorker()
                let first = try Self.device(program, outbox, in: scenario)
                try await waitUntil("some are stored") { try await scenario.database.count("messages") >= 10 }
                worker.send(SIGKILL)
                _ = try await worker.exitCode()
                try await first.stop()
                try await scenario.server.stop()

                let second = try Self.device(program, outbox, in: scenario)
                ids += try await Self.put(201...250, outbox, in: scenario)
                try await scenario.server.start()
                // Behind a component nobody but the device remembers: what it sends now is returned.
                try await scenario.withWorker { _ in
                    try await waitUntil("the outbox is empty") { !second.isRunning }
                }
                #expect(second.exitCode == 0)
                try await scenario.expectStored(ids)
                #expect(try await scenario.database.count("conflicts") == 0)
            }
        }

        @Test("the outbox is bounded, its ids are never used again, and another install's ids are others")
        func outbox() async throws {
            let script = """
                import os, sys
                sys.path.insert(0, sys.argv[1])
                from outbox import Full, Outbox
                box = Outbox(sys.argv[2] + "/a.db", limit=3)
                ids = [box.put("c", {"n": n}) for n in range(3)]
                try:
                    box.put("c", {})
                    sys.exit("not bounded")
                except Full:
                    pass
                assert [id for id, _ in box.pending(10)] == ids
                assert not box.acked("other-1") and box.acked(ids[2]) and not box.acked(ids[2])
                box = Outbox(sys.argv[2] + "/a.db", limit=3)
                assert box.put("c", {}) not in ids and len(box) == 3
                assert Outbox(sys.argv[2] + "/b.db").install != box.install
                """
            let folder = try TemporaryFolder()
            let file = try folder.write(script.utf8, as: "t.py")
            let process = try ServerProcess(
                [try TestTools.python(), file, Self.folder.path, folder.url.path],
                log: folder.url.appending(path: "t.log").path,
                ["PYTHONDONTWRITEBYTECODE": "1"]
            )
            try await waitUntil("it ends") { !process.isRunning }
            let output = try String(contentsOf: folder.url.appending(path: "t.log"), encoding: .utf8)
            #expect(process.exitCode == 0, "\(output)")
        }
    }
}
