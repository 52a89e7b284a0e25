import DatabaseSupport
import Diagnosis
import Foundation
import LocalDatabase
import Postgres
import Vocabulary

/// One cluster for the tests that change nothing of the server.
enum SharedCluster {
    static let cluster = LocalCluster.forTests("diagnosis")
}

/// A database of a system that runs well, but for what a test spoils.
struct DoctorFixture {
    let database: TestDatabase

    /// A migrated database with a policy, a recent run of retention, and a worker whose sender is bound.
    init(on cluster: LocalCluster = SharedCluster.cluster) async throws {
        database = try await TestDatabase(on: cluster)
        try await database.script(HealthySystem.rows)
    }

    /// The usual limits, but that a server which has just started is judged at once, as the tests' own have, and that a
    /// machine whose disk is small is not.
    static var limits: Doctor.Limits {
        var limits = Doctor.Limits()
        limits.settling = .zero
        limits.diskFloor = (0, 0)
        return limits
    }

    /// Makes messages whose data has 300 bytes, received evenly over an hour from a time on.
    static func messages(_ count: Int, from time: String, over length: String = "1 hour") -> String {
        """
        WITH made AS (
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
            SELECT gen_random_uuid(), '1234567890', 'm' || n, 'FAKE-token', gen_random_uuid(), 'com.example.orders',
                to_json(repeat('x', 300)), \(time) + n * interval '\(length)' / \(count)
            FROM generate_series(0, \(count) - 1) AS n RETURNING message_key, received_at
        )
        INSERT INTO upstream.message_ids SELECT message_key, gen_random_uuid(), received_at FROM made;
        """
    }

    /// What a new session of the owner finds.
    func examine(
        _ limits: Doctor.Limits = limits,
        as role: String? = nil,
        ahead: Duration = .zero,
        free: Int64? = nil
    ) async throws -> Diagnosis {
        let url = database.url.replacingOccurrences(of: "user=upstream", with: "user=\(role ?? "upstream")")
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        let doctor = Doctor(
            connection,
            limits: limits,
            clock: { Timestamp.now + ahead },
            freeSpace: { _ in free ?? Int64.max }
        )
        let diagnosis = try await doctor.examine()
        await connection.close()
        return diagnosis
    }

    /// The names of what is found, without what every test cluster has: fsync is off, and there is no standby.
    func names(_ limits: Doctor.Limits = limits) async throws -> [String] {
        try await examine(limits).findings.map(\.name.rawValue).filter { !["fsync-off", "no-standby"].contains($0) }
    }
}

extension Diagnosis {
    /// The finding of a name.
    func finding(_ name: String) -> Finding? { findings.first { $0.name.rawValue == name } }
}
