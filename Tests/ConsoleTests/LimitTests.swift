import ConsoleSupport
import Foundation
import NIOCore
import QuerySupport
import Synchronization
import Testing

@testable import Console

/// What one connection may take.
@Suite struct LimitTests {
    private static let head = "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
    private static let post = "POST /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n"

    private static var short: ConsoleLimits {
        var limits = ConsoleLimits()
        limits.idle = .milliseconds(300)
        limits.bodyTime = .milliseconds(300)
        limits.writeTime = .milliseconds(300)
        return limits
    }

    @Test("a head that is too large, or has too many fields, is refused with the limit")
    func heads() async throws {
        try await ConsoleHarness.run { console in
            let large = Self.head + "X: " + String(repeating: "a", count: 17 << 10) + "\r\n\r\n"
            let answer = try #require(try RawConnection.exchange(console.port, large))
            #expect(answer.hasPrefix("HTTP/1.1 431") && answer.contains("at most 16 KiB"), "\(answer)")
            let many = Self.head + (0..<70).map { "X\($0): a\r\n" }.joined() + "\r\n"
            #expect(try RawConnection.exchange(console.port, many)?.hasPrefix("HTTP/1.1 431") == true)
        }
    }

    @Test(
        "bytes that are no request, or could be two, are refused, and the connection with them",
        arguments: [
            "\u{16}\u{3}\u{1}hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
            post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n",
            post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", post + "Content-Length: -1\r\n\r\n",
            post + "Content-Length: 18446744073709551617\r\n\r\n",
            post + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
            "GET /livez HTTP/1.1\r\nHost: localhost\r\n folded: a\r\n\r\n",
            "GET /livez HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", "GET /livez HTTP/1.1\nHost: a\n\n\u{0}\n",
        ]
    )
    func garbage(_ bytes: String) async throws {
        try await ConsoleHarness.run(limits: Self.short) { console in
            let answer = try #require(try RawConnection.exchange(console.port, bytes))
            #expect(!answer.contains("HTTP/1.1 200") || bytes.hasSuffix("\u{0}\n"), "\(answer)")
            #expect(answer.components(separatedBy: "HTTP/1.1 ").count <= 3, "\(answer)")
            #expect(try await console.get("/livez").status == 200)
        }
    }

    @Test("a request without a host, or with two, is refused")
    func hosts() async throws {
        try await ConsoleHarness.run { console async throws in
            for hosts in ["", "Host: localhost\r\nHost: evil.example\r\n", "Host:\r\n"] {
                let bytes = "GET /api/v1/whoami HTTP/1.1\r\n\(hosts)Connection: close\r\n\r\n"
                #expect(try RawConnection.exchange(console.port, bytes)?.hasPrefix("HTTP/1.1 400") == true, "\(hosts)")
            }
            for path in ["//evil.example/api/v1/whoami", "*", "api"] {
                let bytes = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                #expect(try RawConnection.exchange(console.port, bytes)?.hasPrefix("HTTP/1.1 400") == true, "\(path)")
            }
        }
    }

    @Test("a body of a gigabyte is refused by its head, and one without a length when it has grown too large")
    func bodies() async throws {
        try await ConsoleHarness.run { console in
            let announced = try RawConnection(console.port)
            announced.write(Self.post + "Content-Length: 1073741824\r\n\r\n")
            let answer = try #require(announced.readToEnd())
            #expect(answer.hasPrefix("HTTP/1.1 413") && answer.contains("at most 256 KiB"))

            let chunked = try RawConnection(console.port)
            chunked.write(Self.post + "Transfer-Encoding: chunked\r\n\r\n")
            let chunk = "10000\r\n" + String(repeating: "a", count: 65_536) + "\r\n"
            var sent = 0
            while sent < 16_384, chunked.write(chunk) { sent += 1 }
            // What the kernel's buffers take, and not a gigabyte.
            #expect(sent < 1_000, "\(sent) × 64 KiB were taken")
        }
    }

    @Test("a client that sends its head, or its body, byte by byte for ever is cut off")
    func slow() async throws {
        try await ConsoleHarness.run(limits: Self.short) { console in
            for opening in ["GET /livez HT", Self.post + "Content-Length: 1000\r\n\r\n"] {
                let connection = try RawConnection(console.port)
                connection.write(opening)
                let start = ContinuousClock.now
                while connection.write("a"), ContinuousClock.now - start < .seconds(20) {
                    try await Task.sleep(for: .milliseconds(20))
                }
                #expect(ContinuousClock.now - start < .seconds(10))
            }
            let silent = try RawConnection(console.port)
            #expect(silent.readToEnd() == "")
        }
    }

    @Test("a client that takes nothing of its answer is cut off")
    func unread() async throws {
        try await ConsoleHarness.run(limits: Self.short) { console in
            let connection = try RawConnection(console.port)
            // Answers that together are larger than every buffer on the way, none of which is read.
            let request =
                "GET /sign-in?next=/" + String(repeating: "a", count: 2_000) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
            let requests = String(repeating: request, count: 100)
            var rounds = 0
            while rounds < 400, connection.write(requests) { rounds += 1 }
            #expect(rounds < 400)
            #expect(try await console.get("/livez").status == 200)
        }
    }

    @Test("requests that come at once are answered in their order")
    func pipelining() async throws {
        try await ConsoleHarness.run { console in
            let paths = ["/icon.svg", "/api/v1/nothing", "/sign-in"]
            let bytes = paths.map { "GET \($0) HTTP/1.1\r\nHost: localhost\r\n\r\n" }.joined()
            let last = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            let answer = try #require(try RawConnection.exchange(console.port, bytes + last))
            let statuses = answer.components(separatedBy: "HTTP/1.1 ").dropFirst().map { $0.prefix(3) }
            #expect(statuses == ["404", "404", "200", "200"])
        }
    }

    @Test(
        "a request behind one that reads for long is answered as well",
        arguments: ["/api/v1/messages", "/api/v1/dead", "/api/v1/conflicts", "/api/v1/messages/export", "/messages"]
    )
    func pipelinedReading(_ path: String) async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            let head = "HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n"
            let last = "GET /api/v1/whoami \(head)Connection: close\r\n\r\n"
            let answer = try #require(
                try RawConnection.exchange(console.port, "GET \(path) \(head)\r\n" + last)
            )
            #expect(answer.components(separatedBy: "HTTP/1.1 200").count == 3, "\(answer)")
            #expect(answer.contains("\"name\":\"viewer\""))
        }
    }

    @Test("behind an answer with 'Connection: close' the connection is closed, whatever else was asked")
    func closing() async throws {
        var limits = ConsoleLimits()
        limits.idle = .seconds(120)
        try await ConsoleHarness.run(limits: limits) { console in
            let bytes = Self.head + "\r\n" + Self.head + "\r\n"
            let answer = try #require(try RawConnection.exchange(console.port, bytes))
            #expect(answer.components(separatedBy: "HTTP/1.1 200").count == 2, "\(answer)")
            #expect(answer.lowercased().contains("connection: close"))
            let close = "GET /sign-in HTTP/1.1\r\nHost: localhost\r\nConnection: Close\r\n\r\n"
            #expect(try RawConnection.exchange(console.port, close) != nil)
        }
    }

    @Test("an address that holds hundreds of connections without a token locks nobody out")
    func crowd() async throws {
        var limits = ConsoleLimits()
        (limits.idle, limits.strangerIdle) = (.seconds(120), .seconds(120))
        try await ConsoleHarness.run(limits: limits) { console in
            let asked = [
                Self.head + "\r\n", "GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "GET /livez HTTP/1.1\r\nHo",
            ]
            let held = try (0..<640).map { number in
                let connection = try RawConnection(console.port)
                connection.write(asked[number % asked.count])
                return connection
            }
            for _ in 0..<3 { #expect(try await console.get("/api/v1/whoami", as: .operator_).status == 200) }
            #expect(held.count == 640)
        }
    }

    @Test("a stranger's connection is closed after some seconds without a request, and nobody's who has signed in")
    func strangerIdle() async throws {
        var limits = ConsoleLimits()
        (limits.idle, limits.strangerIdle) = (.seconds(60), .milliseconds(200))
        try await ConsoleHarness.run(limits: limits) { console in
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            let known = try RawConnection(console.port)
            let request = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n"
            known.write(request)
            #expect(known.answer()?.contains(" 200 ") == true)
            let stranger = try RawConnection(console.port)
            stranger.write("GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(stranger.readToEnd()?.contains(" 200 ") == true)
            #expect(try RawConnection(console.port).readToEnd() == "")
            known.write(request)
            #expect(known.answer()?.contains(" 200 ") == true)
        }
    }

    @Test("answers that nobody reads are dropped beyond a bound of all of them, and whoever reads gets theirs")
    func unreadOfAll() async throws {
        var limits = ConsoleLimits()
        limits.table.unread = 8 << 20
        let big = "\"" + String(repeating: "a", count: 250_000) + "\""
        let seeds = (1...10).map { Seed(id: "big\($0)", data: big, at: Int64($0)) }
        try await ConsoleHarness.run(seeds, limits: limits) { console in
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            let request = "GET /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n"
            let held = try (0..<30).map { _ in
                let connection = try RawConnection(console.port)
                // The second answer is made, and waits behind the first.
                connection.write(request + request)
                return connection
            }
            // A beginning of an answer, or the end of the connection.
            for connection in held { _ = connection.wait() }
            let reply = try await console.get("/api/v1/messages", as: .operator_)
            #expect(reply.status == 200 && reply.body.count > 2 << 20)
            let whole = held.count { ($0.answer()?.utf8.count ?? 0) > 2 << 20 }
            #expect(whole <= 5, "\(whole) answers of 2 MiB were kept")
        }
    }

    @Test("HTTP/1.0 gets one answer and the end of the connection")
    func oldVersion() async throws {
        try await ConsoleHarness.run { console in
            let start = ContinuousClock.now
            let answer = try RawConnection.exchange(console.port, "GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")
            #expect(answer?.contains(" 200 ") == true && answer?.hasSuffix("ok\n") == true)
            // By the answer's end, and not by that of an idle connection.
            #expect(ContinuousClock.now - start < .seconds(15))
        }
    }

    @Test("an answer without a length has no chunks for HTTP/1.0 and for HEAD: the connection's end ends it")
    func endless() async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            let token = try #require(ConsoleHarness.Caller.viewer.token)
            func ask(_ line: String) throws -> String {
                let request = "\(line)\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n"
                return try #require(try RawConnection.exchange(console.port, request + request))
            }
            let old = try ask("GET /api/v1/messages/export HTTP/1.0")
            #expect(old.hasSuffix("}\n") && !old.contains("chunked"), "\(old)")
            for path in ["messages/export", "messages/stream"] {
                let head = try ask("HEAD /api/v1/\(path) HTTP/1.1")
                #expect(head.contains(" 200 ") && !head.contains("chunked"), "\(head)")
                #expect(head.components(separatedBy: "\r\n\r\n").dropFirst() == [""], "\(head)")
            }
        }
    }

    @Test("HEAD is GET without the body, also where it fails")
    func head() async throws {
        try await ConsoleHarness.run { console in
            for path in ["/api/v1/whoami", "/sign-in", "/livez", "/api/v1/nothing"] {
                let get = try await console.get(path)
                let head = try await console.send(path, "HEAD")
                #expect(head.status == get.status && head.body.isEmpty)
                #expect(head.header("Content-Length") == "\(get.body.count)")
            }
        }
    }

    @Test("/readyz, which anybody may ask, asks the database once a second at most")
    func readiness() async {
        let clock = ManualClock()
        let asked = Atomic(0)
        let readiness = Readiness(now: clock.now) {
            await Task.yield()
            return asked.add(1, ordering: .relaxed).newValue == 1 ? nil : "away"
        }
        await withTaskGroup(of: String?.self) { group in
            for _ in 0..<100 { group.addTask { await readiness.problem() } }
            for await problem in group { #expect(problem == nil) }
        }
        clock.advance(.milliseconds(999))
        #expect(await readiness.problem() == nil && asked.load(ordering: .relaxed) == 1)
        clock.advance(.milliseconds(1))
        #expect(await readiness.problem() == "away" && asked.load(ordering: .relaxed) == 2)
    }
}
