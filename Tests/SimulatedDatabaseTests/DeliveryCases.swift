import Dispatcher
import Ingest
import Synchronization
import UpstreamKit
import Vocabulary

extension Site {
    /// The offer of a worker that runs `orders`.
    func offer(
        _ token: Int64,
        _ handlers: [String] = ["orders"],
        packed: [String] = [],
        block: Int64 = 0,
        owner: String = "a"
    ) -> LeaseOffer {
        var offer = LeaseOffer(
            handlers: handlers,
            local: ["orders"],
            owner: owner,
            token: token,
            duration: .seconds(60)
        )
        (offer.packed, offer.block) = (packed, block)
        return offer
    }

    /// Claims, and shows what was given.
    func claim(
        _ store: any DeliveryStore,
        _ owner: String = "a",
        limit: Int = 100,
        isOrdered: Bool = false,
        _ change: (inout ClaimRequest) -> Void = { _ in }
    ) async throws -> ([Delivery], String) {
        var request = ClaimRequest(
            handler: "orders",
            limit: limit,
            lease: .seconds(60),
            owner: owner,
            isOrdered: isOrdered
        )
        change(&request)
        let found = try await store.claim(request)
        let texts = found.map { delivery in
            guard case .stored(let message) = delivery.content else { return "\(delivery.messageKey.low): missing" }
            return "\(delivery.messageKey.low): \(message.messageID) \(message.senderID) \(message.category) "
                + "\(message.registrationToken.rawValue) \(String(decoding: message.data ?? [], as: UTF8.self)) "
                + "\(message.receivedAtMicroseconds - start) \(delivery.attempts) \(delivery.crashes)"
        }
        return (found, "claimed [\(texts.joined(separator: ", "))]")
    }

    /// The next claim finds what others have given up, wherever it is in the table.
    func settled(_ deliveries: [Delivery], _ outcome: Settlement.Outcome, _ end: AttemptOutcome? = nil) -> [Settlement]
    {
        deliveries.map { delivery in
            var settlement = delivery.settled(outcome)
            settlement.attempt = end.map {
                AttemptRecord(
                    outcome: $0,
                    started: .now,
                    took: .milliseconds(3),
                    receivedAt: start + Int64(delivery.messageKey.low)
                )
            }
            return settlement
        }
    }

    /// Stores messages of one category, in the order of their numbers.
    func receive(_ numbers: ClosedRange<UInt64>, devices: UInt64 = 1) async -> String {
        await commit(numbers.map { message($0, device: $0 % devices) }, by: writer())
    }
}

extension Site {
    func outcome(_ body: () async throws(StoreError) -> Void) async -> String {
        do throws(StoreError) {
            try await body()
            return "done"
        } catch {
            return error.text
        }
    }

    /// Each method of the port once, and how it ended.
    fileprivate func tryEverything(_ store: any DeliveryStore, _ held: [Delivery]) async -> [String] {
        let settlements = settled(held, .release(after: .zero))
        let block = BlockSettlement(number: 1, token: 1, count: 1, done: [.number(1)])
        return [
            await outcome { () async throws(StoreError) in _ = try await store.register([.make("orders")]) },
            await outcome { () async throws(StoreError) in _ = try await store.controls(["orders"]) },
            await outcome { () async throws(StoreError) in
                try await store.hold("orders", HandlerHold(remaining: .seconds(60), reason: "later"))
            },
            await outcome { () async throws(StoreError) in try await store.pause("orders", reason: "asked") },
            await outcome { () async throws(StoreError) in _ = try await store.claim(request) },
            await outcome { () async throws(StoreError) in
                _ = try await store.extend(held.map(\.key), of: "orders", by: .seconds(90))
            },
            await outcome { () async throws(StoreError) in _ = try await store.settle([block], of: "orders") },
            await outcome { () async throws(StoreError) in _ = try await store.settle(settlements, of: "orders") },
            await outcome { () async throws(StoreError) in _ = try await store.unclaimed() },
            await outcome { () async throws(StoreError) in _ = try await store.backlog(["orders"]) },
        ]
    }

    private var request: ClaimRequest {
        ClaimRequest(handler: "orders", limit: 9, lease: .seconds(60), owner: "writer")
    }
}

/// Whether something has come about.
private final class Done: Sendable {
    private let state = Mutex(false)
    var isSet: Bool { state.withLock(\.self) }
    func set() { state.withLock { $0 = true } }
}

private let failure = HandlerFailure(group: "broken", detail: "it-broke")

extension ConformanceTests {
    static let registering = [
        Case("subscriptions are the union of what the workers ask for") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders", ["x", "y"]), .make("all")])
            var text = try await site.everything()
            _ = try await b.register([.make("orders", ["y", "z"], ordering: .device)])
            text += try await site.everything()
            // Again, with less.
            _ = try await a.register([.make("orders", ["x"])])
            text += try await site.everything()
            await site.close(b)
            text += try await site.everything()
            await site.close(a)
            return text + (try await site.everything())
        },
        Case("heartbeats, and a worker that is silent") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders", ["x"])])
            _ = try await b.register([.make("orders", ["y"])])
            var text: [String] = []
            for _ in 0..<8 {
                try await site.pass(.seconds(101))
                _ = try await a.backlog(["orders"])
                text += try await site.rows(.registrations) + site.rows(.subscriptions) + site.rows(.handlers)
            }
            // It comes back, and finds its registration gone.
            _ = try await b.backlog(["orders"])
            text += try await site.rows(.registrations) + site.rows(.subscriptions)
            try await site.pass(.seconds(20))
            _ = try await a.backlog(["orders"])
            text += try await site.rows(.registrations)
            try await site.pass(.seconds(500))
            text.append("\(try await a.unclaimed())")
            // After a gap nobody is in a position to judge others.
            _ = try await a.backlog(["orders"])
            text += try await site.rows(.registrations) + site.rows(.subscriptions)
            return text + ["\(try await a.unclaimed())"]
        },
        Case("controls: pauses, holds, resumptions") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders"), .make("others")])
            func controls() async throws -> [String] {
                try await a.controls(["others", "orders", "unknown"]).map { control in
                    let hold = control.hold.map { "\((($0.inSeconds) / 10).rounded() * 10)" } ?? "-"
                    return "\(control.handler) \(control.isPaused) \(hold) \(control.resumption > 0)"
                }
            }
            var text = try await controls()
            try await a.hold("orders", HandlerHold(remaining: .seconds(60), reason: "later"))
            text += try await controls() + site.rows(.handlers)
            // The longest wins.
            try await a.hold("orders", HandlerHold(remaining: .seconds(30), reason: "sooner"))
            try await a.hold("unknown", HandlerHold(remaining: .seconds(30), reason: "sooner"))
            text += try await controls() + site.rows(.handlers)
            try await site.pass(.seconds(100))
            text += try await controls()
            try await a.pause("others", reason: "asked")
            try await site.happen(.paused)
            text += try await controls() + site.rows(.handlers)
            try await site.happen(.resumed)
            return try await text + controls() + site.rows(.handlers)
        },
        Case("a registration that the database has lost") { site in
            let (a, writer) = (site.deliveries("a"), site.writer())
            let token = try await a.register([.make("orders")])
            var text = [await site.commit([site.message(1)], site.offer(token), by: writer)]
            try await site.happen(.registrationsLost)
            text.append(await site.commit([site.message(2)], site.offer(token), by: writer))
            text.append(await site.commit([site.message(1, at: 50)], site.offer(token), by: writer))
            text.append(
                await site.commit([site.message(1, at: 50), site.message(3)], site.offer(token, []), by: writer)
            )
            text += try await site.everything()
            let renewed = try await a.register([.make("orders")])
            // Another's token, or name, is not one's own.
            text.append(await site.commit([site.message(4)], site.offer(token), by: writer))
            text.append(await site.commit([site.message(4)], site.offer(renewed, owner: "b"), by: writer))
            text.append(await site.commit([site.message(4)], site.offer(renewed), isRetry: true, by: writer))
            return text + ["\(renewed > token)"] + (try await site.everything())
        },
    ]

    static let troubled = [
        Case("the dispatcher's port on a server that accepts no writes") { site in
            let a = site.deliveries("writer")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...2)
            let (held, first) = try await site.claim(a, "writer", limit: 1)
            try await site.happen(.readOnly)
            // The first finds out that its session is gone.
            _ = try? await a.controls(["orders"])
            let text = await site.tryEverything(a, held)
            try await site.happen(.writable)
            try await site.happen(.sessionsEnd)
            _ = try? await a.controls(["orders"])
            return try await [first] + text + site.everything() + site.tryEverything(a, held) + site.everything()
        },
        Case("the dispatcher's port after its sessions have ended") { site in
            let a = site.deliveries("writer")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...2)
            let (held, first) = try await site.claim(a, "writer", limit: 1)
            try await site.happen(.sessionsEnd)
            let lost = await site.outcome { () async throws(StoreError) in _ = try await a.controls(["orders"]) }
            return try await [first, lost] + site.tryEverything(a, held) + site.everything()
        },
        Case("other workers are told of what waits for them, until their sessions end") { site in
            let store = site.deliveries("writer")
            _ = try await store.register([.make("orders")])
            let isTold = Done()
            async let end = site.outcome { () async throws(StoreError) in try await store.listen { isTold.set() } }
            let other = site.writer()
            // Until the session listens.
            var number: UInt64 = 0
            while !isTold.isSet {
                number += 1
                _ = await site.commit([site.message(number)], by: other)
                try await Task.sleep(for: .milliseconds(20))
            }
            try await site.happen(.sessionsEnd)
            return ["told", await end]
        },
    ]

    static let queueing = [
        Case("rows for handlers that subscribe, without a lease") { site in
            _ = try await site.deliveries("a").register([
                .make("orders", ["com.example.orders", "x"]), .make("all", ordering: .device),
            ])
            return [
                await site.receive(1...3, devices: 2),
                await site.commit([site.message(4, category: "y"), site.message(5, category: "x")], by: site.writer()),
                await site.commit([site.message(4, at: 50, category: "y")], by: site.writer()),
            ] + (try await site.everything())
        },
        Case("rows under the lease of who asks for them") { site in
            let token = try await site.deliveries("a").register([.make("orders", ["x"])])
            _ = try await site.deliveries("b").register([.make("orders", ["y"]), .make("busy")])
            return [
                await site.commit(
                    [site.message(1, category: "x"), site.message(2, category: "y"), site.message(3, category: "z")],
                    site.offer(token, ["orders", "busy"]),
                    by: site.writer()
                )
            ] + (try await site.everything())
        },
        Case("one handler by two subscriptions gets a message once") { site in
            let token = try await site.deliveries("a").register([.make("orders", ["x", "y"])])
            _ = try await site.deliveries("b").register([.make("orders")])
            let batch = (1...3).map { site.message($0, category: $0 == 3 ? "z" : "x") }
            return [
                await site.commit(batch, site.offer(token), by: site.writer()),
                await site.commit(
                    (11...13).map { site.message($0, category: $0 == 13 ? "z" : "x") },
                    site.offer(token, packed: ["orders"], block: 1),
                    by: site.writer()
                ),
            ] + (try await site.everything())
        },
        Case("blocks: of a whole batch, of a part, for ordered handlers none") { site in
            let token = try await site.deliveries("a").register([
                .make("orders"), .make("some", ["x"]), .make("devices", ordering: .device),
            ])
            let packed = ["orders", "some", "devices"]
            let writer = site.writer()
            return [
                await site.commit(
                    [site.message(2), site.message(1, at: 90), site.message(3, category: "x")],
                    site.offer(token, packed, packed: packed, block: 1),
                    by: writer
                ),
                // One of them is known.
                await site.commit(
                    [site.message(3, at: 80), site.message(4), site.message(5, category: "x")],
                    site.offer(token, packed, packed: packed, block: 2),
                    by: writer
                ),
                // For a handler that nobody else knows of here.
                await site.commit(
                    [site.message(6)],
                    site.offer(token, ["orders"], packed: ["orders"], block: 3),
                    by: writer
                ),
            ] + (try await site.everything())
        },
    ]
}

extension ConformanceTests {
    static let leasing = [
        Case("claims give what is due in its order, up to the limits, once") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders")])
            var text = [await site.receive(1...5)]
            text.append(try await site.claim(a, limit: 2).1)
            text.append(try await site.claim(b, "b") { $0.bytes = 1_500 }.1)
            text.append(try await site.claim(b, "b").1)
            text.append(try await site.claim(a).1)
            return text + (try await site.everything())
        },
        Case("a lease that ends passes on, and its holder has lost it") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...2)
            let (old, first) = try await site.claim(a, limit: 1)
            var text = [first]
            try await site.pass(.seconds(50))
            text.append("\(try await a.extend(old.map(\.key), of: "orders", by: .seconds(60)).count)")
            try await site.pass(.seconds(50))
            text.append(try await site.claim(b, "b").1)
            try await site.pass(.seconds(50))
            text.append(try await site.claim(b, "b").1)
            text.append("\(try await a.extend(old.map(\.key), of: "orders", by: .seconds(60)).count)")
            let outcomes: [Settlement.Outcome] = [
                .done, .retry(after: .zero, failure), .dead(failure, isCounted: true), .release(after: .zero),
            ]
            for outcome in outcomes {
                text.append("\(try await a.settle(site.settled(old, outcome, .done), of: "orders"))")
            }
            return text + (try await site.everything())
        },
        Case("deliveries over which workers die are claimed apart") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            var text = [await site.receive(1...2)]
            for _ in 0..<2 {
                text.append(try await site.claim(a).1)
                try await site.pass(.seconds(70))
            }
            text.append(await site.receive(3...3))
            text.append(try await site.claim(a).1)
            text.append(try await site.claim(a) { ($0.isForSuspects, $0.mostCrashes) = (true, 1) }.1)
            let (suspects, found) = try await site.claim(a, limit: 1) { $0.isForSuspects = true }
            text.append(found)
            text.append(
                "\(try await a.settle(site.settled(suspects, .retry(after: .seconds(20), failure)), of: "orders"))"
            )
            text += try await site.everything()
            try await site.pass(.seconds(30))
            return text + [try await site.claim(a).1] + (try await site.everything())
        },
        Case("a probe takes what was never tried") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...3)
            let (some, first) = try await site.claim(a, limit: 2)
            var text = [first]
            text.append("\(try await a.settle(site.settled(some, .retry(after: .zero, failure)), of: "orders"))")
            text.append(try await site.claim(a, limit: 3) { $0.isForUntried = true }.1)
            text.append(try await site.claim(a).1)
            return text + (try await site.everything())
        },
        Case("a paused handler gets nothing") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...1)
            try await site.happen(.paused)
            var text = [try await site.claim(a).1]
            text.append(try await site.claim(a) { $0.isForSuspects = true }.1)
            try await site.happen(.resumed)
            text.append(try await site.claim(a).1)
            return text
        },
        Case("an ordered handler gets the oldest of each device, one at a time") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders", ordering: .device)])
            var text = [await site.receive(1...6, devices: 2)]
            let (heads, first) = try await site.claim(a, isOrdered: true)
            text.append(first)
            text.append(try await site.claim(a, "b", isOrdered: true).1)
            text.append("\(try await a.settle(site.settled(Array(heads.prefix(1)), .done), of: "orders"))")
            text.append(try await site.claim(a, isOrdered: true).1)
            // A device waits for its oldest.
            text.append(
                "\(try await a.settle(site.settled(Array(heads.suffix(1)), .retry(after: .seconds(40), failure)), of: "orders"))"
            )
            text.append(try await site.claim(a, isOrdered: true).1)
            text += try await site.everything()
            try await site.pass(.seconds(50))
            text.append(try await site.claim(a, isOrdered: true).1)
            return text + (try await site.everything())
        },
        Case("blocks of a worker that died become rows of others") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            let token = try await a.register([.make("orders")])
            _ = await site.commit(
                [site.message(1), site.message(2)],
                site.offer(token, packed: ["orders"], block: 1),
                by: site.writer()
            )
            var text = [try await site.claim(b, "b").1]
            try await site.pass(.seconds(70))
            // A store looks for such blocks at most twice a second.
            text.append(try await site.claim(site.deliveries("b"), "b").1)
            text += try await site.everything()
            let late = BlockSettlement(number: 1, token: token, count: 2, done: [.number(1), .number(2)])
            text.append("\(try await a.settle([late], of: "orders"))")
            return text + (try await site.everything())
        },
    ]

    static let settling = [
        Case("each outcome of a row, with its record") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...6)
            let (all, _) = try await site.claim(a)
            func one(_ index: Int, _ outcome: Settlement.Outcome, _ end: AttemptOutcome?) -> [Settlement] {
                site.settled([all[index]], outcome, end)
            }
            var text = [
                "\(try await a.settle(one(0, .done, .done) + one(1, .retry(after: .seconds(20), failure), .retry) + one(2, .dead(failure, isCounted: true), .rejected) + one(3, .release(after: .seconds(40)), .released) + one(4, .release(after: .seconds(60), noting: failure), .released) + one(5, .dead(failure, isCounted: false), nil), of: "orders"))"
            ]
            text += try await site.everything()
            // Repeated, as if the answer had been lost.
            text.append(
                "\(try await a.settle(one(0, .done, .done) + one(1, .retry(after: .seconds(90), failure), .retry), of: "orders"))"
            )
            try await site.pass(.seconds(100))
            let (again, found) = try await site.claim(a)
            text.append(found)
            text.append("\(try await a.settle(site.settled(again, .done, .done), of: "orders"))")
            return text + (try await site.everything())
        },
        Case("a block that is done") { site in
            let a = site.deliveries("a")
            let token = try await a.register([.make("orders")])
            let writer = site.writer()
            for block in 1...2 as ClosedRange<UInt64> {
                _ = await site.commit(
                    [site.message(block * 10), site.message(block * 10 + 1)],
                    site.offer(token, packed: ["orders"], block: Int64(block)),
                    by: writer
                )
            }
            func block(_ number: UInt64, _ count: Int, _ done: [UInt64]) -> BlockSettlement {
                var block = BlockSettlement(
                    number: Int64(number),
                    token: token,
                    count: count,
                    done: done.map { .number($0) }
                )
                block.attempts = done.map {
                    AttemptRecord(outcome: .done, started: .now, took: .zero, receivedAt: site.start + Int64($0))
                }
                return block
            }
            var text = ["\(try await a.settle([block(1, 2, [10, 11])], of: "orders"))"]
            text += try await site.everything()
            // The answer was lost.
            text.append("\(try await a.settle([block(1, 2, [10, 11])], of: "orders"))")
            // Not all of it is done.
            text.append("\(try await a.settle([block(2, 2, [21])], of: "orders"))")
            text += try await site.everything()
            text.append("\(try await a.settle([block(2, -1, [])], of: "orders"))")
            let rest = Settlement(messageKey: .number(20), token: token, outcome: .retry(after: .seconds(30), failure))
            text.append("\(try await a.settle([rest], of: "orders"))")
            return text + (try await site.everything())
        },
        Case("a block that holds more than its worker knows") { site in
            let a = site.deliveries("a")
            let token = try await a.register([.make("orders")])
            let batch = (1...3).map { site.message($0) }
            _ = await site.commit(batch, site.offer(token, packed: ["orders"], block: 7), by: site.writer())
            let block = BlockSettlement(number: 7, token: token, count: 2, done: [.number(1), .number(2)])
            return ["\(try await a.settle([block], of: "orders"))"] + (try await site.everything())
        },
        Case("backlogs") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders"), .make("others", ["none"])])
            _ = await site.receive(1...3)
            let (some, _) = try await site.claim(a, limit: 1)
            _ = try await a.settle(site.settled(some, .dead(failure, isCounted: true)), of: "orders")
            return try await a.backlog(["others", "orders", "unknown"]).map {
                "\($0.handler) \($0.depth) \($0.deadLetters) \($0.oldestAge < .seconds(20))"
            }
        },
    ]
}

extension Delivery {
    fileprivate var key: LeaseReference { LeaseReference(messageKey: messageKey, token: lease.token) }
}
