import Dispatch
import Foundation
import IntegrationSupport
import LocalDatabase
import Synchronization
import Testing

@testable import Postgres

@Suite("Sessions for calls that must not wait for each other", .timeLimit(.minutes(5)))
struct PoolTests {
    private final class Count: Sendable {
        private let state = Atomic<Int>(0)
        var value: Int { state.load(ordering: .relaxed) }
        func add() { state.add(1, ordering: .relaxed) }
    }

    private let pool: PostgresPool
    private let name = "pool\(UInt64.random(in: 0...UInt64.max))"

    init() throws {
        var settings = try PostgresSettings(url: SharedCluster.cluster.url)
        settings.applicationName = name
        pool = PostgresPool(settings, limit: 3)
    }

    private func backend() async throws -> Int64 {
        try await pool.run { connection throws(PostgresError) in
            try connection.query("SELECT pg_backend_pid()::int8").value()
        }
    }

    @Test("Calls one after the other take the same session")
    func one() async throws {
        var backends: Set<Int64> = []
        for _ in 0..<50 { backends.insert(try await backend()) }
        #expect(backends.count == 1)
        await pool.close()
    }

    @Test("A call that waits keeps its session; the others get others, up to the limit, and give them back")
    func several() async throws {
        let gates = [DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)]
        let reached = Count()
        try await withThrowingTaskGroup(of: Int64.self) { group in
            for (index, gate) in gates.enumerated() {
                group.addTask { [pool] in
                    try await pool.run { connection throws(PostgresError) in
                        reached.add()
                        gate.wait()
                        return try connection.query("SELECT pg_backend_pid()::int8").value()
                    }
                }
                try await waitUntil { reached.value == index + 1 }
            }
            // One more than there may be: it has to wait for one of them.
            let last = Task { [pool] in
                try await pool.run { connection throws(PostgresError) in
                    try connection.query("SELECT pg_backend_pid()::int8").value(Int64.self)
                }
            }
            // One that is given up while it waits takes none with it.
            let givenUp = Task { try await backend() }
            givenUp.cancel()
            await #expect(throws: PostgresError.self) { _ = try await givenUp.value }
            gates[1].signal()
            let free = try await last.value
            for gate in gates { gate.signal() }
            var backends: Set<Int64> = []
            for try await backend in group { backends.insert(backend) }
            #expect(backends.count == 3 && backends.contains(free))
        }
        #expect(try await backend() > 0)
        await pool.close()
    }

    @Test("Where the server lets no further session in, those that stand do the work")
    func refused() async throws {
        let root = try await SharedCluster.open()
        let role = name
        try await root.run { connection throws(PostgresError) in
            try connection.script("CREATE ROLE \(role) LOGIN CONNECTION LIMIT 1")
        }
        let url = SharedCluster.cluster.url.replacingOccurrences(of: "user=upstream", with: "user=\(role)")
        let pool = PostgresPool(try PostgresSettings(url: url), limit: 3)
        let gate = DispatchSemaphore(value: 0)
        let reached = Count()
        async let first: Void = pool.run { connection throws(PostgresError) in
            reached.add()
            gate.wait()
            try connection.script("SELECT 1")
        }
        try await waitUntil { reached.value == 1 }
        await #expect(throws: PostgresError.self) {
            try await pool.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
        }
        // No other attempt: this one waits for the session that stands.
        async let second: Void = pool.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
        gate.signal()
        _ = try await (first, second)
        await pool.close()
        await root.close()
    }
}
