import CCSEmulator
import DatabaseSupport
import EmulatorSupport
import Foundation
import IntegrationSupport
import LocalDatabase
import Testing

extension Integration {
    /// `docs/high-availability.md`, "Move a sender to another database", followed to the letter with two servers.
    @Suite("moving a sender", .timeLimit(.minutes(5))) struct SenderMoveTests {
        private static let taken = """
            CREATE SCHEMA app;
            CREATE TABLE app.taken (message_key uuid);
            CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql AS $$
                INSERT INTO app.taken VALUES (message.message_key)
            $$;
            GRANT USAGE ON SCHEMA app TO upstream_worker;
            GRANT INSERT ON app.taken TO upstream_worker
            """
        private static let handlers = """
            - {name: once, categories: ["*"], sql: {function: app.take}}
            """

        /// A server with the roles of `deploy/roles.sql`, and a database that belongs to `upstream_owner`.
        private func database(_ name: String) async throws -> Database {
            var options = LocalCluster.Options()
            (options.fsync, options.isTemporary) = (false, true)
            let folder = URL(filePath: "/tmp/upstream-move-\(name)-\(UInt32.random(in: 0...UInt32.max))")
            let database = try await Database(on: try LocalCluster.start(in: folder, options), migrated: false)
            try await database.script(try DeployedRoles.script())
            try await database.script(
                "ALTER DATABASE \(database.name) OWNER TO upstream_owner; CREATE ROLE reader LOGIN IN ROLE upstream_reader"
            )
            try database.command("migrate", "up")
            try await database.script(try DeployedRoles.script())
            try await database.script(Self.taken)
            return database
        }

        @Test(
            "under load nothing is lost and nothing doubled, and the new database knows the old one's ids",
            arguments: zip([SIGTERM, SIGKILL], ["sender", "device"])
        )
        func move(_ signal: Int32, _ scope: String) async throws {
            let (old, new) = (try await database("old"), try await database("new"))
            defer {
                old.cluster.stop()
                new.cluster.stop()
            }
            let folder = try TemporaryFolder()
            let acks = folder.url.appending(path: "acks.ndjson").path
            try await Stage.run(on: old) {
                $0.acks = acks
            } _: { stage in
                var options = WorkerOptions(database: old.url(as: "upstream-worker"))
                (options.handlers, options.lease, options.idScope) = (Self.handlers, "3s", scope)
                let before = try stage.yaml(options)
                options.database = new.url(as: "upstream-worker")
                let after = try stage.yaml(options)
                let move = try Move(from: old, to: new, configuration: after, in: folder)
                let first = try ChildWorker(yaml: before, in: stage.folder)
                try await forget("gone", stage)

                let load = Load(stage.emulator)
                let sending = Task { await repeating(every: .milliseconds(10)) { await load.sendSome() } }
                defer { sending.cancel() }
                try await stage.wait(for: "some acks") { $0.tally.acked >= 300 }
                try move.run(1)
                // What the old database still has to handle, when the sender goes.
                try old.command("handlers", "pause", "once")
                try await waitUntil("deliveries wait") { try await old.waitingDeliveries() >= 100 }
                first.send(signal)
                #expect(try await first.exitCode() == (signal == SIGTERM ? 0 : -signal))
                try await old.waitUntilAbandoned()
                try move.run(2)
                let moved = try await new.count("messages")
                #expect(try await old.count("messages") == moved)

                let second = try ChildWorker(yaml: after, in: stage.folder)
                let rest = try ChildWorker(yaml: before, in: stage.folder, ["--roles", "dispatch"])
                try old.command("handlers", "resume", "once")
                let acked = await stage.emulator.tally().acked
                try await stage.wait(for: "acks by the new worker") { $0.tally.acked >= acked + 300 }
                sending.cancel()
                await sending.value
                // Every id again, the erased one, too.
                try await load.repeatAll()
                try await stage.send(data: ["{}"], device: "gone", idPrefix: "gone")
                try await stage.waitUntilComplete()
                let made = await load.made
                try await new.waitUntilHandled(made)
                try await old.waitUntilHandled(moved)
                try await end([second, rest], stage)
                try await compare(old, new, moved: moved, made: made)
                try new.command("audit", "--against", acks)
            }
        }

        private func end(_ workers: [ChildWorker], _ stage: Stage) async throws {
            for worker in workers {
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
            let tally = await stage.emulator.stop()
            #expect(tally.isClean, "\(tally.summary)")
        }

        /// Looks at both databases after `made` messages, of which the old one had received `moved`, and an erased one.
        private func compare(_ old: Database, _ new: Database, moved: Int, made: Int) async throws {
            #expect(moved < made && moved >= 300)
            #expect(try await new.count("messages") == made, "the erased one is no new one")
            for database in [old, new] {
                #expect(try await database.count("conflicts") + database.count("quarantine") == 0)
            }
            let taken = "SELECT message_key::text FROM app.taken"
            var keys = try await old.texts(taken)
            #expect(keys.count == moved + 1, "the erased one was handled before")
            keys += try await new.texts(taken)
            #expect(keys.count == made + 1 && Set(keys).count == made + 1, "each message once, over both")
        }

        /// Has a message of a device stored and handled, and erases it: its id alone is left.
        private func forget(_ device: String, _ stage: Stage) async throws {
            try await stage.send(data: ["{}"], device: device, idPrefix: device)
            try await stage.database.waitUntilHandled(1)
            let token = try stage.folder.write(device.utf8, as: "token")
            try stage.database.command("forget", "--yes", "--token-file", token)
            #expect(try await stage.database.count("messages") == 0)
        }
    }
}

extension Database {
    /// How to connect as another role.
    fileprivate func url(as role: String) -> String { url.replacing("user=upstream", with: "user=\(role)") }

    /// Runs a command here, as the schema's owner.
    fileprivate func command(_ words: String...) throws {
        let place = ["--config", "/dev/null", "--set", "database.url=\(url(as: "upstream_owner"))"]
        let run = try CommandRun(words + place)
        try #require(run.status == 0, "\(words): \(run.output)\(run.errors)")
    }
}

/// The page's blocks, for two databases of ours.
private struct Move {
    private let blocks: [String]
    private let shell: PageShell

    init(from old: Database, to new: Database, configuration: String, in folder: TemporaryFolder) throws {
        _ = try folder.write(configuration.utf8, as: "new.yaml")
        shell = PageShell(folder: folder.url, variables: ["OLD", "NEW", "SENDER", "since"])
        let page = try String(contentsOf: projectFolder.appending(path: "docs/high-availability.md"), encoding: .utf8)
        let section = try PageSection("Move a sender to another database", of: page)
        let places = "OLD='\(old.url(as: "reader"))' NEW='\(new.url(as: "upstream_owner"))' SENDER=\(Stage.sender)"
        let first = try section.block("bash", 1)
        try #require(first.contains(/OLD="[^"]*" NEW="[^"]*" SENDER=\d+/))
        blocks = [
            first.replacing(/OLD="[^"]*" NEW="[^"]*" SENDER=\d+/) { _ in places }, try section.block("bash", 2),
        ]
        try new.command("partitions", "policy", "--apply", "--yes")
        try new.command("partitions", "run")
    }

    /// Runs one of them, counted from one.
    func run(_ number: Int) throws { try shell.run(blocks[number - 1]) }
}

/// New messages without pause, and an earlier one again for each fifth.
private actor Load {
    private let emulator: Emulator
    /// How many messages there are.
    private(set) var made = 0

    /// More than this many unacked copies wait for nothing: the worker's window is full.
    private static let most = 150

    init(_ emulator: Emulator) { self.emulator = emulator }

    func sendSome() async {
        guard let snapshot = try? await emulator.snapshot(), !snapshot.bound.isEmpty,
            snapshot.tally.unackedCopies < Self.most
        else { return }
        for _ in 0..<5 {
            // The connection may be gone meanwhile, and nothing sent.
            guard (try? await send(made)) != nil else { return }
            made += 1
        }
        try? await send(made / 2)
    }

    /// Sends every message once more.
    func repeatAll() async throws {
        for number in 0..<made {
            try await waitUntil("room in the window") {
                try await emulator.snapshot().tally.unackedCopies < Self.most
            }
            try await send(number)
        }
    }

    private func send(_ number: Int) async throws {
        let (id, device) = ("load-\(number)", "FAKE-device-\(number % 16)")
        try await emulator.inject(
            json: #"{"message_id":"\#(id)","from":"\#(device)","category":"com.example.app","data":{"n":\#(number)}}"#,
            id: id,
            to: device
        )
    }
}
