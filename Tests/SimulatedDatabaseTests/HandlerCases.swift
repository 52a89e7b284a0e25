import Dispatcher
import UpstreamKit
import Vocabulary

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
            // Just over ten minutes after six; and ages, which are compared to ten seconds, stay so on a slow machine.
            for _ in 0..<8 {
                try await site.pass(.milliseconds(100_200))
                try await a.keep(["orders"])
                text += try await site.rows(.registrations) + site.rows(.subscriptions) + site.rows(.handlers)
            }
            // It comes back, and finds its registration gone.
            try await b.keep(["orders"])
            text += try await site.rows(.registrations) + site.rows(.subscriptions)
            try await site.pass(.seconds(20))
            try await a.keep(["orders"])
            text += try await site.rows(.registrations)
            try await site.pass(.seconds(500))
            text.append("\(try await a.unclaimed())")
            // After a gap nobody is in a position to judge others.
            try await a.keep(["orders"])
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
        Case("shares of a limit over all workers") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders")])
            _ = try await b.register([.make("orders")])
            func share(_ store: any DeliveryStore, _ whole: Int, most: Int = 100, busy: Int = 0) async throws -> String
            {
                let request = ShareRequest(
                    handler: "orders",
                    whole: whole,
                    most: min(most, whole),
                    busy: busy,
                    lease: .seconds(60)
                )
                return "\(try await store.share(request) ?? -1)"
            }
            var text = [try await share(a, 7), try await share(b, 7), try await share(a, 7, busy: 5)]
            text += [
                try await share(b, 7), try await share(a, 7, most: 2), try await share(b, 7), try await share(a, 7),
            ]
            text += [try await share(b, 3), try await share(a, 7), try await share(b, 3)]
            try await site.pass(.seconds(40))
            text.append(try await share(b, 7))
            try await site.pass(.seconds(40))
            text += [try await share(b, 7), try await share(a, 7, busy: 7)]
            let unknown = ShareRequest(handler: "unknown", whole: 1, most: 1, busy: 0, lease: .seconds(60))
            text.append("\(try await a.share(unknown) ?? -1)")
            await site.close(b)
            return text + [try await share(a, 7)]
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
            while !isTold.isSet, number < 500 {
                number += 1
                _ = await site.commit([site.message(number)], by: other)
                try await Task.sleep(for: .milliseconds(20))
            }
            try await site.happen(.sessionsEnd)
            return ["\(isTold.isSet)", await end]
        },
    ]

    static let calling = [
        Case("a function's effect and the end of its delivery come together, once") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...2)
            let (held, _) = try await site.claim(a)
            var text = [await site.call("a", held[0]).text]
            text += try await site.everything()
            text.append(await site.call("a", held[0]).text)
            text.append(
                "\(try await a.settle(site.settled([held[1]], .retry(after: .zero, failure), .retry), of: "orders"))"
            )
            let (again, _) = try await site.claim(a)
            text.append(await site.call("a", again[0]).text)
            return text + (try await site.everything())
        },
        Case("a function whose lease has passed on has no effect") { site in
            let (a, b) = (site.deliveries("a"), site.deliveries("b"))
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...1)
            let (old, _) = try await site.claim(a)
            try await site.pass(.seconds(70))
            let (new, _) = try await site.claim(b, "b")
            var text = [await site.call("a", old[0]).text]
            text += try await site.everything()
            text.append(await site.call("b", new[0]).text)
            return text + (try await site.everything())
        },
        Case("a function on a server that accepts no writes, and after its session has ended") { site in
            let a = site.deliveries("a")
            _ = try await a.register([.make("orders")])
            _ = await site.receive(1...2)
            let (held, _) = try await site.claim(a)
            var text = [await site.call("writer", held[0]).text]
            try await site.happen(.sessionsEnd)
            text.append(await site.call("writer", held[1]).text)
            try await site.happen(.readOnly)
            text.append(await site.call("writer", held[1]).text)
            text += try await site.everything()
            try await site.happen(.writable)
            try await site.happen(.sessionsEnd)
            _ = await site.call("writer", held[1])
            _ = await site.call("writer", held[1])
            return text + (try await site.everything())
        },
    ]
}
