import Foundation
import Glibc
import IntegrationSupport
import QuerySupport
import Testing

/// The program itself: what scripts and people meet.
@Suite("the commands as a process", .timeLimit(.minutes(4)))
struct ProcessTests {
    /// A database, a configuration that names it, and the program.
    private struct Stage {
        let fixture: QueryFixture
        let folder: TemporaryFolder
        let configuration: String

        init(_ seeds: [Seed] = []) async throws {
            try self.init(try await QueryFixture(seeds))
        }

        init(_ fixture: QueryFixture) throws {
            self.fixture = fixture
            folder = try TemporaryFolder()
            configuration = folder["worker.yaml"]
            try write("database: {url: \"\(fixture.url)\"}\n", to: "worker.yaml")
        }

        func write(_ text: String, to name: String) throws {
            try Data(text.utf8).write(to: URL(filePath: folder[name]))
        }

        func start(_ arguments: [String]) throws -> Child {
            try Child(arguments + ["--config", configuration], in: folder)
        }

        func run(_ arguments: String...) throws -> Child.End { try start(arguments).wait() }

        /// What a terminal would be given on stdout, and what stands on stderr.
        func show(_ arguments: [String]) throws -> (status: Int32, shown: String, messages: String) {
            // Glibc's module has no posix_openpt: what that does, on Linux.
            let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
            defer { close(terminal) }
            var lock: Int32 = 0
            var number: Int32 = 0
            guard ioctl(terminal, 0x4004_5431, &lock) == 0, ioctl(terminal, 0x8004_5430, &number) == 0 else {
                throw POSIXError(.ENODEV)
            }
            let name = "/dev/pts/\(number)"
            let slave = open(name, O_RDWR | O_NOCTTY)
            let child = try Child(
                arguments + ["--config", configuration],
                in: folder,
                stdout: FileHandle(fileDescriptor: slave, closeOnDealloc: false)
            )
            close(slave)
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 4_096)
            // Ends with an error once nobody holds the other side any more.
            while case let count = read(terminal, &buffer, buffer.count), count > 0 { bytes += buffer[..<count] }
            let end = try child.wait()
            return (end.status, String(decoding: bytes, as: UTF8.self), end.messages)
        }
    }

    @Test("list: NDJSON where stdout is no terminal, --json, --csv, --after to the end")
    func list() async throws {
        let stage = try await Stage(Awkward.seeds)
        let count = Awkward.seeds.count
        let all = try stage.run("messages", "list")
        #expect(all.status == 0 && all.messages.isEmpty)
        #expect(try all.objects().map { $0["message_id"] as? String } == Awkward.seeds.reversed().map(\.id))
        #expect(!all.output.contains("SECRET"))
        let array = try stage.run("messages", "list", "--json", "--reveal").output
        let rows = try #require(try JSONSerialization.jsonObject(with: Data(array.utf8)) as? [[String: Any]])
        #expect(rows.count == count && rows.allSatisfy { $0["registration_token"] is String })
        #expect(CSV.read(Array(try stage.run("messages", "list", "--csv").output.utf8))?.count == count + 1)
        let none = try stage.run("messages", "list", "--json", "--category", "none")
        #expect(none.output == "[]\n" && none.status == 0)
        var ids: [String?] = []
        var cursor: [String] = []
        while true {
            let page = try stage.start(["messages", "list", "--limit", "5"] + cursor).wait()
            ids += try page.objects().map { $0["message_id"] as? String }
            guard let next = page.messages.split(separator: " ").last, page.messages.hasPrefix("more: ") else { break }
            cursor = ["--after", next.trimmingCharacters(in: .whitespacesAndNewlines)]
        }
        #expect(ids == Awkward.seeds.reversed().map(\.id))
    }

    @Test("a table has no character that a terminal could act on")
    func table() async throws {
        let stage = try await Stage(Awkward.seeds)
        for arguments in [["list", "--table", "--reveal"], ["tail", "--table", "--limit", "50"], ["show", "lines"]] {
            let shown = try stage.start(["messages"] + arguments).wait()
            #expect(shown.status == 0 && !shown.output.isEmpty)
            #expect(shown.output.unicodeScalars.allSatisfy { $0 == "\n" || !Danger.isDangerous($0) }, "\(arguments)")
        }
    }

    @Test("a token comes from a file, and only from there")
    func tokenFile() async throws {
        let stage = try await Stage([
            Seed(id: "a", token: "token-SECRET-a"), Seed(id: "b", token: "token-SECRET-b", at: 1),
        ])
        func ids(_ text: String) throws -> [String?] {
            try stage.write(text, to: "token")
            let end = try stage.run("messages", "list", "--from-token-file", stage.folder["token"])
            #expect(end.status == 0 && !end.messages.contains("SECRET"))
            return try end.objects().map { $0["message_id"] as? String }
        }
        #expect(try ids("token-SECRET-b") == ["b"])
        #expect(try ids("token-SECRET-b\r\n") == ["b"])
        #expect(try ids("token-SECRET-c\n") == [])
        for text in ["", "\n", "a\nb\n", String(repeating: "x", count: 5_000)] {
            try stage.write(text, to: "token")
            #expect(try stage.run("messages", "list", "--from-token-file", stage.folder["token"]).status == 65)
        }
        #expect(try stage.run("messages", "list", "--from-token-file", stage.folder["none"]).status == 66)
    }

    @Test("each wrong argument and each missing row has its exit code, and a message")
    func exitCodes() async throws {
        let stage = try await Stage([Seed(id: "a")])
        let key = "00000000-0000-0000-0000-000000000000"
        let cases: [(Int32, [String])] = [
            (0, ["messages", "show", "a"]), (1, ["messages", "show", "none"]), (1, ["messages", "show", key]),
            (1, ["quarantine", "show", "7"]), (1, ["conflicts", "show", key]), (1, ["conflicts", "release", key]),
            (64, ["conflicts", "show", "none"]), (64, ["messages", "list", "--where", "a=b"]),
            (64, ["messages", "list", "--where", "data.a~("]), (64, ["messages", "list", "--since", "soon"]),
            (64, ["messages", "list", "--device", "token"]), (64, ["messages", "list", "--limit", "0"]),
            (64, ["messages", "list", "--after", "x"]), (64, ["messages", "list", "--json", "--csv"]),
            (64, ["messages", "list", "--since", "today", "--until", "yesterday"]),
            (64, ["messages", "tail", "--json"]),
            (64, ["messages", "export", "--resume"]), (64, ["quarantine", "list", "--reason", "odd"]),
            (64, ["messages", "export", "--output", stage.configuration]),
            (65, ["messages", "export", "--resume", "--output", stage.configuration]),
            (75, ["messages", "export", "--output", "/dev/full", "--resume"]),
            (0, ["quarantine", "list"]), (0, ["quarantine", "export"]), (0, ["conflicts", "list"]),
        ]
        for (status, arguments) in cases {
            let end = try stage.start(arguments).wait()
            #expect(end.status == status, "\(arguments): \(end.messages)")
            #expect(status == 0 || !end.messages.isEmpty, "\(arguments)")
        }
        try stage.write("database: {url: \"postgresql:///x?host=/nonexistent\"}\n", to: "worker.yaml")
        #expect(try stage.run("messages", "list").status == 69)
    }

    @Test("a query that takes too long ends with 75 and says how to narrow it")
    func timeout() async throws {
        let stage = try await Stage()
        try await stage.fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
            SELECT gen_random_uuid(), 's', n::text, 't', gen_random_uuid(), 'c', json_build_object('n', n),
                timestamptz '2026-03-01 00:00Z' + n * interval '1 ms'
            FROM generate_series(1, 150000) AS n;
            ANALYZE upstream.messages
            """
        )
        // Seconds of matching: never done within the limit, which in turn is ample for what comes before the query.
        let slow = (10..<30).flatMap { ["--where", "data.n~^[0-9]{1,\($0)}$"] } + ["--where", "data.n=-1"]
        let end = try stage.start(["messages", "list"] + slow + ["--timeout", "300ms"]).wait()
        #expect(end.status == 75, "\(end.messages)")
        #expect(end.messages.contains("--category") && end.messages.contains("--timeout"))
        #expect(end.messages.contains("one by one"))
    }

    @Test("a query that waits for a lock ends with 75 and says why")
    func locked() async throws {
        let stage = try await Stage()
        try await stage.fixture.script("BEGIN; LOCK TABLE upstream.messages")
        let end = try stage.start(["messages", "list"]).wait()
        #expect(end.status == 75, "\(end.messages)")
        #expect(end.messages.contains("locked the table"))
        try await stage.fixture.script("ROLLBACK")
    }

    @Test("kill -9 in the middle of an export: --resume completes it to the same bytes", arguments: ["--csv", ""])
    func killed(_ format: String) async throws {
        let stage = try await Stage()
        try await stage.fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
            SELECT md5(n::text)::uuid, 's', E'id "' || n || E'"\\n', 't', gen_random_uuid(), 'c',
                json_build_object('n', n, 'text', repeat('x', n % 300)), timestamptz '2026-03-01 00:00Z' + n / 3 * interval '1 ms'
            FROM generate_series(1, 60000) AS n
            """
        )
        let options = format.isEmpty ? [] : [format]
        let whole = stage.folder["whole"]
        #expect(try stage.start(["messages", "export", "--output", whole] + options).wait().status == 0)
        let expected = try Data(contentsOf: URL(filePath: whole))
        let path = stage.folder["part"]
        var kills = 0
        for share in [0.1, 0.4, 0.7] {
            let child = try stage.start(["messages", "export", "--resume", "--output", path] + options)
            while child.process.isRunning {
                let size =
                    try FileManager.default.fileExists(atPath: path)
                    ? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0 : 0
                if Double(size) > Double(expected.count) * share { break }
                usleep(1_000)
            }
            kill(child.process.processIdentifier, SIGKILL)
            if try child.wait().status == -SIGKILL { kills += 1 }
        }
        #expect(kills > 0)
        // Where a kill came between two writes no line is torn; this one is.
        truncate(path, try #require(FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) - 3)
        let end = try stage.start(["messages", "export", "--resume", "--output", path] + options).wait()
        #expect(end.status == 0 && end.messages.contains("resuming after"))
        #expect(try Data(contentsOf: URL(filePath: path)) == expected)
    }

    @Test("tail -f shows what comes, and ends with 0 when it is interrupted")
    func tail() async throws {
        let stage = try await Stage([Seed(id: "old")])
        try await stage.fixture.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        let child = try stage.start(["messages", "tail", "-f"])
        func wait(for text: String) async throws {
            try await waitUntil("\(text) is shown") { try child.peek().contains(text) }
        }
        try await wait(for: #""message_id":"old""#)
        try await stage.fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, received_at)
            VALUES (gen_random_uuid(), 's', 'new', 't', gen_random_uuid(), 'c', now())
            """
        )
        try await wait(for: #""message_id":"new""#)
        kill(child.process.processIdentifier, SIGINT)
        let end = try child.wait()
        #expect(end.status == 0)
        #expect(try end.objects().map { $0["message_id"] as? String } == ["old", "new"])
    }

    @Test("tail -f ends at once where --until has passed, with what lies before it", .timeLimit(.minutes(5)))
    func passedTail() async throws {
        let stage = try await Stage([Seed(id: "old")])
        let end = try stage.run("messages", "tail", "-f", "--until", "2026-03-02")
        #expect(try end.objects().map { $0["message_id"] as? String } == ["old"])
        #expect(end.status == 0 && end.messages.contains("--until has passed"), "\(end.messages)")
    }

    @Test("tail -f ends by itself once --until and --overlap have passed", .timeLimit(.minutes(5)))
    func endingTail() async throws {
        let stage = try await Stage([Seed(id: "old")])
        try await stage.fixture.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        // The program may take longer to start than the first of these.
        for seconds in [3, 60] {
            let soon = """
                SELECT to_char(now() AT TIME ZONE 'UTC' + interval '\(seconds) s', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                """
            let until = try #require(try await stage.fixture.text(soon))
            let end = try stage.run("messages", "tail", "-f", "--until", until, "--overlap", "1s")
            if seconds == 3, end.messages.contains("--until has passed") { continue }
            #expect(end.status == 0 && end.messages.isEmpty, "\(end.messages)")
            let isOver = try await stage.fixture.text(
                "SELECT (now() >= '\(until)'::timestamptz + interval '1 s')::text"
            )
            #expect(isOver == "true")
            return
        }
    }

    @Test("a real terminal is found, and gets no character that it acts on")
    func realTerminal() async throws {
        let hostile = try await CommandStage.hostile()
        let stage = try Stage(hostile.fixture)
        for command in [["messages", "list"], ["handlers", "list"], ["dead", "groups", "--json"]] {
            let end = try stage.show(command)
            #expect(end.status == 0, "\(command): \(end.messages)")
            // The colours of states are ours.
            let shown = end.shown.replacing("\r\n", with: "\n").replacing(/\u{1B}\[(31|32|33|0)m/, with: "")
            #expect(shown.contains("\\u"), "\(command)")
            #expect(shown.unicodeScalars.allSatisfy { $0 == "\n" || !Danger.isDangerous($0) }, "\(command)")
        }
        // And names that are given on the command line come back on stderr.
        let end = try stage.run("handlers", "remove", "\u{1B}[2J")
        #expect(end.status == 1 && end.messages.unicodeScalars.allSatisfy { $0 == "\n" || !Danger.isDangerous($0) })
    }

    @Test("a follower that was stopped for longer than its overlap shows what came meanwhile")
    func stoppedFollower() async throws {
        let stage = try await Stage([Seed(id: "old")])
        try await stage.fixture.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        let child = try stage.start(["messages", "tail", "-f", "--overlap", "1s"])
        func add(_ id: String) async throws {
            try await stage.fixture.script(
                """
                INSERT INTO upstream.messages (
                    message_key, sender_id, message_id, registration_token, device_key, category, received_at)
                VALUES (gen_random_uuid(), 's', '\(id)', 't', gen_random_uuid(), 'c', now())
                """
            )
        }
        try await add("before")
        try await waitUntil("the first message is shown") { try child.peek().contains(#""message_id":"before""#) }
        kill(child.process.processIdentifier, SIGSTOP)
        for number in 1...20 { try await add("m\(number)") }
        let end = "SELECT (now() + interval '9 s')::text"
        let time = try #require(try await stage.fixture.text(end))
        try await waitUntil("the overlap is over") {
            try await stage.fixture.text("SELECT 'x' WHERE now() > '\(time)'::timestamptz") == "x"
        }
        try await add("after")
        kill(child.process.processIdentifier, SIGCONT)
        try await waitUntil("the last message is shown") { try child.peek().contains(#""message_id":"after""#) }
        kill(child.process.processIdentifier, SIGINT)
        let ids = try child.wait().objects().map { $0["message_id"] as? String }
        #expect(ids == ["old", "before"] + (1...20).map { "m\($0)" } + ["after"])
    }
}
