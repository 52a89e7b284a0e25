import Dispatcher
import SimulatedDatabase
import Testing
import Vocabulary

/// What crashes and failovers lose: no real server does that on request, so these are the rules of PostgreSQL's documents.
@Suite("what the model's servers lose", .timeLimit(.minutes(5)))
struct LossTests {
    private let time = VirtualTime()

    private func site(_ replication: SimulatedDatabase.Replication) -> ModelSite { ModelSite(time, replication) }

    private func numbers(_ site: ModelSite) -> [UInt64] { site.database.read { $0.messages.keys.map(\.low).sorted() } }

    @Test("a crash loses no commit that waited for the disk, and ends every session")
    func crash() async throws {
        try await time.run { [self] in
            let site = site(.none)
            let writer = site.writer()
            #expect(await site.commit([site.message(1)], by: writer) == "stored")
            site.database.crash()
            #expect(await site.commit([site.message(2)], by: writer) == "unavailable session lost")
            #expect(await site.commit([site.message(2)], by: writer) == "unavailable session lost")
            site.database.restart()
            #expect(
                await site.commit([site.message(1), site.message(2)], isRetry: true, by: writer) == "stored stored"
            )
            #expect(numbers(site) == [1, 2])
        }
    }

    @Test("a crash loses completions that the disk has not got yet, unless another commit has waited for it")
    func quickCommits() async throws {
        try await time.run { [self] in
            for waits in [Duration.zero, .seconds(1)] {
                for isFlushed in [false, true] {
                    let site = site(.none)
                    let store = site.deliveries("a")
                    _ = try await store.register([.make("orders")])
                    _ = await site.receive(1...1)
                    let (held, _) = try await site.claim(store)
                    #expect(try await store.settle(site.settled(held, .done), of: "orders") == 1)
                    if isFlushed { _ = await site.receive(2...2) }
                    time.advance(by: waits)
                    site.database.crash()
                    site.database.restart()
                    let rest = try await site.rows(.deliveries).count { $0.hasPrefix("orders 1 ") }
                    #expect(rest == (waits == .zero && !isFlushed ? 1 : 0))
                }
            }
        }
    }

    @Test("a failover without synchronous replication loses what the standby lacks")
    func asynchronous() async throws {
        try await time.run { [self] in
            let site = site(.asynchronous(lag: .seconds(10)))
            let writer = site.writer()
            #expect(await site.commit([site.message(1), site.message(2)], by: writer) == "stored stored")
            time.advance(by: .seconds(10))
            for number in 3...5 { #expect(await site.commit([site.message(UInt64(number))], by: writer) == "stored") }
            site.database.failOver(keeping: 1)
            #expect(numbers(site) == [1, 2, 3])
            #expect(await site.commit([site.message(4)], by: writer) == "unavailable session lost")
            #expect(
                await site.commit([site.message(3), site.message(4)], isRetry: true, by: writer) == "stored stored"
            )
            site.database.crash()
            site.database.restart()
            #expect(numbers(site) == [1, 2, 3, 4])
        }
    }

    @Test("a commit that waits for its standby returns once that has it, and a failover keeps it")
    func synchronous() async throws {
        try await time.run { [self] in
            let site = site(.synchronous(lag: .seconds(1)))
            let writer = site.writer()
            let begun = time.now
            #expect(await site.commit([site.message(1)], by: writer) == "stored")
            #expect(begun.duration(to: time.now) == .seconds(1))
            site.database.setStandby(isConnected: false)
            async let waiting = site.commit([site.message(2)], by: writer)
            while numbers(site).count < 2 { await Task.yield() }
            // A copy of what the standby lacks is not confirmed either.
            async let copy = site.commit([site.message(2, at: 70)], isRetry: true, by: site.writer())
            time.advance(by: .seconds(60))
            for _ in 0..<1_000 { await Task.yield() }
            site.database.failOver()
            #expect(await [waiting, copy] == ["unavailable session lost", "unavailable session lost"])
            #expect(numbers(site) == [1])
            #expect(await site.commit([site.message(2)], isRetry: true, by: writer) == "stored")
        }
    }

    @Test("a wait for the standby that is broken off leaves the outcome unknown")
    func unconfirmed() async throws {
        try await time.run { [self] in
            let site = site(.synchronous(lag: .seconds(1)))
            site.database.setFaults { statement, _ in statement == .store ? StatementFault(.unconfirmed) : nil }
            #expect(await site.commit([site.message(1)], by: site.writer()) == "unavailable 08007 connection")
            site.database.failOver()
            #expect(numbers(site).isEmpty)
        }
    }

    @Test("tokens never go back after a crash; a failover may give some again")
    func tokens() async throws {
        try await time.run { [self] in
            let site = site(.asynchronous(lag: .seconds(10)))
            let store = site.deliveries("a")
            let first = try await store.register([.make("orders")])
            site.database.crash()
            site.database.restart()
            _ = try? await store.controls([])
            let second = try await store.register([.make("orders")])
            #expect(second > first)
            site.database.failOver()
            _ = try? await store.controls([])
            #expect(try await store.register([.make("orders")]) == first)
        }
    }

    @Test("a worker that is cut off leaves no lock behind")
    func cut() async throws {
        try await time.run { [self] in
            let site = site(.none)
            let store = site.deliveries("frozen")
            _ = try await store.register([.make("orders")])
            _ = await site.receive(1...2)
            site.database.setFaults { statement, worker in
                worker == "frozen" && statement == .claim ? StatementFault(delay: .seconds(3_600)) : nil
            }
            async let frozen = site.outcome { () async throws(StoreError) in
                _ = try await store.claim(
                    ClaimRequest(handler: "orders", limit: 1, lease: .seconds(60), owner: "frozen")
                )
            }
            // With its locks taken it begins to wait.
            while site.database.openTransactions == 0 || time.sleeping == 0 { await Task.yield() }
            // Locked rows are skipped.
            #expect(try await site.claim(site.deliveries("b"), "b").0.map(\.messageKey.low) == [2])
            site.database.disconnect("frozen")
            #expect(try await site.claim(site.deliveries("b"), "b").0.map(\.messageKey.low) == [1])
            time.advance(by: .seconds(3_600))
            #expect(await frozen == "unavailable session lost")
        }
    }
}
