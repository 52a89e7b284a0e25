import Dispatcher
import UpstreamKit
import Vocabulary

extension ConformanceTests {
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
        Case("prefixes and filters, with a lease and a block") { site in
            let large = #"[{"path":"{total}","test":"=","is":100,"text":"data.total=100"}]"#
            let token = try await site.deliveries("a").register([
                .make("all"), .make("some", ["x.*", "y"]), .make("large", ["x.*", "x.a"], filter: large),
                .make("largest", filter: large),
            ])
            // For every message where one of its workers asks for every message.
            _ = try await site.deliveries("b").register([.make("others", filter: large), .make("both", ["y"])])
            _ = try await site.deliveries("c").register([.make("both", ["x.b"], filter: large)])
            func batch(_ start: UInt64) -> [IncomingMessage] {
                ["x.a", "x.b", "x", "y", "x.", "*", "x.*"].enumerated().map { index, category in
                    let data = index % 2 == 0 ? #"{"total":100}"# : #"{"total":"100"}"#
                    return site.message(start + UInt64(index), data: data, category: category)
                }
            }
            let (writer, names) = (site.writer(), ["all", "some", "large", "largest"])
            return [
                await site.commit(batch(1), by: writer),
                await site.commit(batch(11), site.offer(token, names), by: writer),
                await site.commit(batch(21), site.offer(token, names, packed: names, block: 1), by: writer),
                await site.commit(
                    batch(31) + [site.message(1, at: 99)],
                    site.offer(token, names, packed: names, block: 2),
                    by: writer
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
