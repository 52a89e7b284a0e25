import CCSEmulator
import Foundation
import Glibc
import IntegrationSupport
import LocalDatabase
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// The database moves to another server, or its disk is full (G5).
    @Suite struct FailoverTests {
        @Test("a failover to a synchronous standby loses nothing that was acked, and work goes on there by itself")
        func failover() async throws {
            let count = 4000
            var options = LocalCluster.Options()
            options.isTemporary = true
            let root = "/tmp/upstream-it-failover-\(getpid())"
            let primary = try LocalCluster.start(in: URL(filePath: root + "-a"), options)
            let database = try await Database(on: primary)
            let standby = try LocalCluster.startStandby(of: primary, in: URL(filePath: root + "-b"), options)
            // Separately: the first can't stand in a transaction, which several statements at once would be.
            for statement in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
                try await database.script(statement)
            }
            try await waitUntil("the standby confirms commits") {
                try await database.integer(
                    "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"
                ) == 1
            }
            // Commits wait from when the checkpointer has read the setting, which it has before it does anything else.
            try await database.script("CHECKPOINT")
            let url =
                "postgresql:///\(database.name)?host=\(primary.socketFolder.path),\(standby.socketFolder.path)&user=upstream"
            let copy = try Database(database, on: standby)
            try await Stage.run(on: database) {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.rate = 1000
            } _: { stage in
                try await stage.withWorker(WorkerOptions(database: url)) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 500 }
                    primary.kill()
                    let errors = worker.metrics.databaseErrors
                    // No server takes writes: the standby is one still.
                    try await waitUntil("commits fail, and fail again") {
                        DatabaseErrorClass.allCases.reduce(0) { $0 + errors[$1].value } >= 4
                    }
                    let acked = await stage.emulator.tally().acked
                    #expect(acked < count)
                    #expect(try await copy.count("messages") >= acked)
                    _ = try await copy.integer("SELECT pg_promote()::int")
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 0)
                }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
                #expect(try await copy.count("messages") == count)
                #expect(try await copy.count("quarantine") + copy.count("conflicts") == 0)
            }
            standby.stop()
        }

        @Test(
            "a full disk withholds acks, blames no message, and work resumes by itself when there is room",
            .enabled(if: SmallDisk.isAllowed, "needs the right to mount a file system of 40 MB")
        )
        func fullDisk() async throws {
            let count = 6000
            var options = LocalCluster.Options()
            options.isTemporary = true
            let cluster = try LocalCluster.start(in: URL(filePath: "/tmp/upstream-it-full-\(getpid())"), options)
            let disk = try SmallDisk(megabytes: 40)
            defer {
                cluster.stop()
                disk.unmount()
            }
            try await Database(on: cluster, migrated: false)
                .script("CREATE TABLESPACE small LOCATION '\(disk.folder)'")
            try await Stage.run(on: try await Database(on: cluster, tablespace: "small")) {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.size = 1500...1500
            } _: { stage in
                // Room for about a third of the messages.
                try disk.fill(leaving: 4_000_000)
                try await stage.withWorker { worker in
                    try await waitUntil("PostgreSQL finds no room") {
                        worker.metrics.databaseErrors[.resources].value >= 3
                    }
                    let acked = await stage.emulator.tally().acked
                    #expect(acked < count)
                    #expect(try await stage.database.count("messages") >= acked)
                    #expect(try await stage.database.count("quarantine") == 0)
                    try disk.makeRoom()
                    try await stage.waitUntilComplete()
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 0)
                }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.acked == count, "\(tally.summary)")
                #expect(try await stage.database.count("messages") == count)
                #expect(try await stage.database.count("quarantine") == 0)
            }
        }
    }
}

/// A file system of its own that can be filled.
private struct SmallDisk {
    let folder: String
    private var filler: String { folder + "/filler" }

    /// Whether this process may mount.
    static let isAllowed: Bool = {
        guard let disk = try? SmallDisk(megabytes: 1) else { return false }
        disk.unmount()
        return true
    }()

    init(megabytes: Int) throws {
        folder = "/tmp/upstream-it-disk-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        guard mount("tmpfs", folder, "tmpfs", 0, "size=\(megabytes)m") == 0 else {
            let reason = String(cString: strerror(errno))
            rmdir(folder)
            throw WaitedTooLong(description: "can't mount: \(reason)")
        }
        guard let user = getpwnam("postgres") else { throw WaitedTooLong(description: "no user postgres") }
        chown(folder, user.pointee.pw_uid, user.pointee.pw_gid)
    }

    /// Takes all room but this.
    func fill(leaving bytes: Int) throws {
        var state = statvfs()
        guard statvfs(folder, &state) == 0 else { throw WaitedTooLong(description: "statvfs") }
        let room = Int(state.f_bavail) * Int(state.f_bsize) - bytes
        try #require(room > 0)
        try Data(count: room).write(to: URL(filePath: filler))
    }

    func makeRoom() throws { try FileManager.default.removeItem(atPath: filler) }

    func unmount() {
        umount2(folder, Int32(MNT_DETACH))
        rmdir(folder)
    }
}
