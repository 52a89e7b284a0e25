import Foundation
import Glibc
import IntegrationSupport
import QuerySupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// `console` as a process: how it starts, how it refuses to, and how it ends.
@Suite("console as a process", .timeLimit(.minutes(4)))
struct ConsoleProcessTests {
    private static let token = "FAKE-0123456789-0123456789-0123456789"

    private static func start(_ yaml: String, in folder: TemporaryFolder) throws -> ChildWorker {
        try ChildWorker(yaml: yaml + "\nlog: {level: debug, format: json}\n", in: folder, command: ["console"])
    }

    private static func ask(
        _ child: ChildWorker,
        _ path: String,
        _ headers: [String: String] = [:]
    ) async throws -> (status: Int, text: String) {
        try await child.waitForEvent("console.listening")
        let port = try #require(try child.events("console.listening").first?["port"] as? Int)
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)\(path)")))
        request.timeoutInterval = 20
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
    }

    @Test("it serves without the senders' keys, tells no token in its log, and ends in order")
    func serves() async throws {
        let fixture = try await QueryFixture()
        let folder = try TemporaryFolder()
        let file = try folder.write(Array(Self.token.utf8), as: "on-call")
        let child = try Self.start(
            """
            database: {url: "\(fixture.url)"}
            senders: [{sender_id: "1", host: a.example, secret_file: /nowhere/key}]
            console: {listen: "127.0.0.1:0", tokens: [{file: "\(file)", role: operator}]}
            """,
            in: folder
        )
        let headers = ["Authorization": "Bearer \(Self.token)"]
        #expect(try await Self.ask(child, "/api/v1/whoami?q=FAKE-query", headers).status == 400)
        let reply = try await Self.ask(child, "/api/v1/whoami", headers)
        #expect(reply.status == 200 && reply.text.contains("\"name\":\"on-call\",\"role\":\"operator\""))
        #expect(try await Self.ask(child, "/api/v1/whoami").status == 401)
        #expect(try await Self.ask(child, "/readyz").status == 200)
        try await waitUntil("the requests are logged") { try child.events("console.request").count >= 4 }
        let log = try child.logText()
        #expect(log.contains("\"route\":\"/api/v1/whoami\"") && !log.contains("FAKE"))
        #expect(log.contains("console     http://127.0.0.1:") && !log.contains("/once/"))
        child.send(SIGTERM)
        #expect(try await child.exitCode() == 0)
    }

    @Test("without tokens everybody of this machine may look, which it says, and nobody may act")
    func open() async throws {
        let fixture = try await QueryFixture()
        let folder = try TemporaryFolder()
        let yaml = "database: {url: \"\(fixture.url)\"}\nconsole: {listen: \"127.0.0.1:0\"}"
        let child = try Self.start(yaml, in: folder)
        let reply = try await Self.ask(child, "/api/v1/whoami")
        #expect(reply.text.contains("\"role\":\"viewer\",\"rights\":[\"read\"]"))
        try await child.waitForEvent("console.open")
        // The link is for a terminal alone.
        #expect(try !child.logText().contains("/sign-in/once/"))
        child.send(SIGINT)
        let code = try await child.exitCode()
        let log = try child.logText()
        #expect(code == 0, "\(code): \(log)")
    }

    @Test("an answer without an end, such as the live stream, does not hold up the end of the process")
    func endless() async throws {
        let fixture = try await QueryFixture()
        let folder = try TemporaryFolder()
        let yaml = "database: {url: \"\(fixture.url)\"}\nconsole: {listen: \"127.0.0.1:0\"}"
        let child = try Self.start(yaml, in: folder)
        async let stream = try? await Self.ask(child, "/api/v1/messages/stream")
        try await waitUntil("the stream is open") {
            try child.events("console.request").contains { $0["status"] as? Int == 200 }
        }
        child.send(SIGTERM)
        #expect(try await child.exitCode() == 0)
        _ = await stream
    }

    @Test("a database without the schema is waited for, with the fix; one that no migration makes right ends it")
    func schema() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script("ALTER TABLE upstream.schema_migrations RENAME TO away")
        let folder = try TemporaryFolder()
        let yaml = "database: {url: \"\(fixture.url)\"}\nconsole: {listen: \"127.0.0.1:0\"}"
        let child = try Self.start(yaml, in: folder)
        try await child.waitForEvent("schema.differs")
        #expect(try child.logText().contains("run `upstream-worker migrate up`"))
        #expect(try await Self.ask(child, "/readyz").status == 503)
        try await fixture.script("ALTER TABLE upstream.away RENAME TO schema_migrations")
        try await child.waitForEvent("schema.fits")
        try await waitUntil("the console is ready") { try await Self.ask(child, "/readyz").status == 200 }
        child.send(SIGTERM)
        #expect(try await child.exitCode() == 0)
        try await fixture.script("UPDATE upstream.schema_migrations SET checksum = '' WHERE version = '0101'")
        let other = try Self.start(yaml, in: folder)
        #expect(try await other.exitCode() == 78)
        #expect(try other.logText().contains("an applied migration is never edited"))
    }

    @Test("while the database is away it says so, and does not hang or end")
    func away() async throws {
        let folder = try TemporaryFolder()
        let yaml = "database: {url: \"postgresql://127.0.0.1:1/x\"}\nconsole: {listen: \"127.0.0.1:0\"}"
        let child = try Self.start(yaml, in: folder)
        #expect(try await Self.ask(child, "/livez").status == 200)
        #expect(try await Self.ask(child, "/readyz").status == 503)
        try await child.waitForEvent("database.unavailable")
        child.send(SIGTERM)
        #expect(try await child.exitCode() == 0)
    }

    @Test("a service manager hears when it serves, that it reads its configuration again, and when it ends")
    func supervised() async throws {
        let folder = try TemporaryFolder()
        let socket = try NotifySocket(folder.url.appending(path: "notify").path)
        let yaml = "database: {url: \"postgresql://127.0.0.1:1/x\"}\nconsole: {listen: \"127.0.0.1:0\"}"
        let child = try ChildWorker(
            yaml: yaml + "\nlog: {level: info, format: json}\n",
            in: folder,
            command: ["console"],
            [],
            ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "400000"]
        )
        try await socket.wait(for: "READY=1")
        try await socket.wait(for: "WATCHDOG=1", count: 3)
        #expect(try await Self.ask(child, "/livez").status == 200)
        try child.rewrite(yaml + "\nlog: {level: debug, format: json}\nshutdown: {grace: 9s}\n")
        child.send(SIGHUP)
        try await socket.wait(for: "RELOADING=1")
        try await socket.wait(for: "READY=1", count: 2)
        try await child.waitForEvent("configuration.needs_restart")
        #expect(try child.events("configuration.needs_restart")[0]["keys"] as? String == "shutdown.grace")
        #expect(try await Self.ask(child, "/livez").status == 200)
        try await child.waitForEvent("console.request")
        child.send(SIGTERM)
        #expect(try await child.exitCode() == 0)
        #expect(socket.count("STOPPING=1") == 1)
    }

    @Test("an address that is taken, off, or open to everybody is refused, with the fix")
    func addresses() async throws {
        let folder = try TemporaryFolder()
        let database = "database: {url: \"postgresql://127.0.0.1:1/x\"}\n"
        let first = try Self.start(database + "console: {listen: \"127.0.0.1:0\"}", in: folder)
        _ = try await Self.ask(first, "/livez")
        let port = try #require(try first.events("console.listening").first?["port"] as? Int)
        for (section, text) in [
            ("{listen: \"127.0.0.1:\(port)\"}", "set console.listen to a free address"),
            ("{listen: \"off\"}", "console.listen is off"), ("{listen: \"0.0.0.0:0\"}", "lets everybody in"),
        ] {
            let child = try Self.start(database + "console: \(section)", in: folder)
            #expect(try await child.exitCode() == 78)
            let log = try child.logText()
            #expect(log.contains(text), "\(log)")
        }
        first.send(SIGTERM)
        #expect(try await first.exitCode() == 0)
    }
}
