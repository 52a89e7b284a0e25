import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

extension Integration {
    /// A worker whose clock is wrong, or is set while it runs.
    @Suite struct ClockTests {
        /// A wall clock that a test sets while the program runs.
        private struct SettableClock {
            private let file: URL
            let environment: [String: String]

            /// Builds `Tests/Tools/clock/settable.c` into the stage's folder.
            init(_ stage: Stage) throws {
                let library = stage.folder.url.appending(path: "settable.so").path
                let process = Process()
                process.executableURL = URL(filePath: "/usr/bin/env")
                process.arguments = [
                    "cc", "-shared", "-fPIC", "-o", library, "\(projectFolder.path)/Tests/Tools/clock/settable.c",
                ]
                try process.run()
                process.waitUntilExit()
                try #require(process.terminationStatus == 0)
                file = stage.folder.url.appending(path: "clock")
                environment = ["LD_PRELOAD": library, "CLOCK_FILE": file.path]
                try set(ahead: 0)
            }

            /// Sets it so many days ahead.
            func set(ahead days: Int) throws { try Data("\(days * 86_400)\n".utf8).write(to: file) }
        }

        /// Whether every time in the store is between a moment and now.
        private static func isDated(_ database: Database, since: String) async throws -> Bool {
            try await database.integer(
                """
                SELECT count(*) FROM (
                    SELECT received_at FROM upstream.messages UNION ALL SELECT received_at FROM upstream.message_ids
                ) AS times WHERE received_at NOT BETWEEN '\(since)' AND now()
                """
            ) == 0
        }

        @Test("a clock that is set 40 days back, or beyond 2100, stops no ack and changes no time of a message")
        func jumps() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: nil)
                $0.load.connections = 2
                $0.load.rate = 200
            } _: { stage in
                let since = try #require(try await stage.database.texts("SELECT now()::text").first)
                let clock = try SettableClock(stage)
                let yaml = try stage.yaml(WorkerOptions())
                let worker = try ChildWorker(yaml: yaml, in: stage.folder, [], clock.environment)
                func acked() async -> Int { await stage.emulator.tally().acked }
                func goOn(_ what: String) async throws {
                    let before = await acked()
                    try await stage.wait(for: what) { $0.tally.acked > before + 100 }
                }
                try await goOn("acks")
                for days in [-40, 32_850] {
                    try clock.set(ahead: days)
                    try await goOn("acks with \(days) days")
                    try await waitUntil("it says so") {
                        try await worker.scrape().sum("upstream_clock_ahead_seconds").rounded() == Double(days * 86_400)
                    }
                    try await goOn("acks with \(days) days, known")
                }
                try await worker.waitForEvent("clock.differs")
                let report = try await Self.readyz(worker)
                #expect(report.contains("[+] clock ok: this machine's clock is ") && report.hasSuffix("\nready\n"))
                try await waitUntil("doctor can see it") {
                    try await stage.database.integer(
                        "SELECT count(*) FROM upstream.workers WHERE (rates->>'clock_ahead')::float8 > 86400"
                    ) == 1
                }
                try clock.set(ahead: 0)
                try await worker.waitForEvent("clock.agrees")
                try await goOn("acks with the right clock")
                #expect(try worker.events("clock.differs").count == 1)
                #expect(try worker.events("database.unavailable").isEmpty)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                // A worker knows the database's clock to a few milliseconds, so what is arriving may be ahead.
                #expect(try await Self.isDated(stage.database, since: since))
            }
        }

        private static func readyz(_ worker: ChildWorker) async throws -> String {
            guard let port = try worker.events("admin.listening").first?["port"] as? Int,
                let url = URL(string: "http://127.0.0.1:\(port)/readyz?verbose")
            else { throw WaitedTooLong(description: "no port in admin.listening") }
            return String(decoding: try await URLSession.shared.data(from: url).0, as: UTF8.self)
        }
    }
}
