import CCSEmulator
import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import Testing

extension Integration {
    /// `docs/backup.md`, "Drill", followed to the letter: a base backup, archived WAL, and an earlier point.
    @Suite("recovery drill", .timeLimit(.minutes(5))) struct RecoveryDrillTests {
        /// A folder that PostgreSQL's server may write to.
        private func folder() throws -> URL {
            let root = URL(filePath: "/tmp/upstream-drill-\(UInt32.random(in: 0...UInt32.max))")
            for folder in [root, root.appending(path: "wal"), root.appending(path: "restored")] {
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                if getuid() == 0, let user = getpwnam("postgres") {
                    chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid)
                }
            }
            return root
        }

        private func options(_ configuration: [String] = []) -> LocalCluster.Options {
            var options = LocalCluster.Options()
            (options.fsync, options.isTemporary, options.configuration) = (false, true, configuration)
            return options
        }

        @Test("what was acked after the point of recovery is counted exactly, and an export brings it back")
        func counted() async throws {
            let root = try folder()
            defer { try? FileManager.default.removeItem(at: root) }
            let primary = try LocalCluster.start(
                in: root.appending(path: "primary"),
                options(["archive_mode = on", "archive_command = 'cp %p \(root.path)/wal/%f'"])
            )
            defer { primary.stop() }
            let database = try await Database(on: primary)
            let page = try String(contentsOf: projectFolder.appending(path: "docs/backup.md"), encoding: .utf8)
            let section = try PageSection("Drill", of: page)
            let shell = PageShell(folder: root, variables: ["DATABASE", "point"], isServer: true)
            let data = root.appending(path: "restored/data").path
            func follow(_ number: Int) throws {
                let block = try section.block("bash", number).replacing("/restored", with: data)
                    .replacing("/backup/wal", with: root.appending(path: "wal").path)
                try shell.run("DATABASE='\(database.url)'\n\(block)")
            }

            let acks = root.appending(path: "acks.ndjson").path
            let count = 1_000
            try await Stage.run(on: database) {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 200
                $0.acks = acks
            } _: { stage in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await stage.wait(for: "some acks") { $0.tally.acked >= 100 }
                let before = try await database.count("messages")
                try follow(1)
                let after = try await database.count("messages")
                // The load may have ended by now.
                try await stage.send(data: (0..<50).map { "{\"n\":\($0)}" }, idPrefix: "later")
                try await stage.waitUntilComplete()
                await stage.emulator.stop()
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                try follow(2)

                let folder = root.appending(path: "restored")
                let settings = "unix_socket_directories = '\(folder.path)/socket'"
                try shell.run("echo \"\(settings)\" >>\(data)/postgresql.auto.conf")
                let restored = try LocalCluster.start(in: folder, options())
                defer { restored.stop() }
                let copy = try Database(database, on: restored)
                try await waitUntil("the restored server takes writes") {
                    try await copy.integer("SELECT pg_is_in_recovery()::int") == 0
                }
                let kept = try await copy.count("messages")
                #expect(before <= kept && kept <= after && after < count + 50)
                try await compare(copy, with: acks, in: stage.folder, acked: count + 50, lost: count + 50 - kept)

                let export = stage.folder.url.appending(path: "export.ndjson").path
                try run(["messages", "export", "--with-tokens", "--output", export], on: database, in: stage.folder)
                try run(["replay", "import", export, "--reason", "drill"], on: copy, in: stage.folder)
                try await compare(copy, with: acks, in: stage.folder, acked: count + 50, lost: 0)
            }
        }

        @discardableResult
        private func run(
            _ words: [String],
            on database: Database,
            in folder: TemporaryFolder,
            exits status: Int32 = 0
        ) throws -> CommandRun {
            let configuration = try folder.write("database: {url: \"\(database.url)\"}\n".utf8, as: "restored.yaml")
            let run = try CommandRun(words + ["--config", configuration])
            try #require(run.status == status, "\(words): \(run.output)\(run.errors)")
            return run
        }

        /// Compares a database with the file, as the page does: in figures, and nothing else is wrong.
        private func compare(
            _ database: Database,
            with acks: String,
            in folder: TemporaryFolder,
            acked: Int,
            lost: Int
        ) async throws {
            let words = ["audit", "--json", "--against", acks]
            let report = try run(words, on: database, in: folder, exits: lost == 0 ? 0 : 1).object()
            let checks = try #require(report["checks"] as? [[String: Any]])
            let wrong = checks.filter { $0["wrong"] as? Int != 0 }.compactMap { $0["check"] as? String }
            #expect(wrong == (lost == 0 ? [] : ["acked-is-known"]))
            let known = try #require(checks.first { $0["check"] as? String == "acked-is-known" })
            #expect(known["looked"] as? Int == acked && known["wrong"] as? Int == lost, "\(known)")
        }
    }
}
