import ConfigurationKeys
import Foundation
import IntegrationSupport
import Testing
import UpstreamConfiguration

@Suite("the configuration's commands")
struct ConfigCommandTests {
    private let piped = FakeTerminal(columns: nil)

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private func permissions(_ path: String) throws -> Int {
        (try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber)?.intValue ?? 0
    }

    @Test("init writes a file of mode 640 that check passes, never over another, and names secrets only")
    func initialise() async throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("FAKE-key\n".utf8, as: "key")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: secret)
        let path = folder.url.appending(path: "worker.yaml").path
        let flags = [
            "config", "init", path, "--sender-id", "1234567890", "--host", "fcm-xmpp.googleapis.com", "--domain",
            "fcm.googleapis.com", "--secret-file", secret, "--database-url",
            "postgresql:///upstream?host=/run/postgresql",
        ]
        let made = try await piped.run(flags)
        #expect(made.status == 0 && made.errors.contains("mode 640"), "\(made.errors)")
        #expect(try permissions(path) == 0o640)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.hasPrefix("# yaml-language-server: $schema=") && !text.contains("FAKE-key"))
        let check = try await piped.run(["check", "--config", path])
        let document = try await piped.run(["check", "--json", "--config", path])
        #expect(document.output.contains(#""handlers":0,"path":""#) && document.output.contains(#""sound":true"#))
        #expect(check.status == 0 && check.output.contains("ok (1 sender, 0 handlers)"), "\(check.errors)")

        try Data("mine\n".utf8).write(to: URL(filePath: path))
        let again = try await piped.run(flags)
        #expect(again.status == 1 && again.errors.contains("--force"))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine\n")
        let forced = try await piped.run(flags + ["--force"])
        #expect(forced.status == 0)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text && permissions(path) == 0o640)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted() == ["key", "worker.yaml"]
        )
    }

    @Test("init says what is missing where it can't ask, and writes nothing that check would refuse")
    func refusedValues() async throws {
        let folder = try TemporaryFolder()
        let path = folder.url.appending(path: "worker.yaml").path
        let bare = try await piped.run(["config", "init", path])
        #expect(bare.status == 64 && bare.errors.contains("--sender-id, --host"), "\(bare.errors)")
        let wrong = try await piped.run([
            "config", "init", path, "--sender-id", "1", "--host", "https://x", "--database-url",
            "postgresql://u:FAKE-pw@h/d",
        ])
        #expect(wrong.status == 64 && wrong.errors.contains("senders.0.host") && wrong.errors.contains("database.url"))
        #expect(!wrong.errors.contains("FAKE-pw") && !FileManager.default.fileExists(atPath: path))
        let nowhere = try await piped.run([
            "config", "init", "/nowhere/worker.yaml", "--sender-id", "1", "--host", "x.example.com",
        ])
        #expect(nowhere.status == 1 && nowhere.errors.contains("No such file or directory"), "\(nowhere.errors)")
    }

    @Test("--thorough goes with accounts of its own, whose passwords come from a file")
    func thorough() async throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("FAKE-password\n".utf8, as: "secret")
        let path = try folder.write(
            """
            database: {url: "postgresql:///nowhere"}
            senders: [{sender_id: collector, host: h, domain: d.example, dialect: xmpp, secret_file: \(secret)}]
            """.utf8,
            as: "worker.yaml"
        )
        let check = ["check", "--config", path, "--thorough"]
        for flags in [["--connect"], ["--accounts", secret]] {
            let run = try await piped.run(check + flags)
            #expect(run.status == 64 && run.errors.contains("--thorough goes with --connect and --accounts"))
        }
        let files = [
            "one FAKE-password\n": "must hold two lines", "one FAKE-password\none FAKE-other\n": "must hold two lines",
            "one\ntwo FAKE-password\n": "must hold two lines",
            "a@b FAKE-password\ntwo FAKE-password\n": "must hold two",
            "one FAKE-password\nONE FAKE-other\n": "must hold two lines",
            "ｃollector FAKE-password\ntwo FAKE-password\n": "must hold two lines",
            "collector FAKE-password\ntwo FAKE-password\n": "'collector' is an account of a worker",
            "one FAKE-password\nCollector FAKE-password\n": "'Collector' is an account of a worker",
        ]
        for (text, words) in files {
            let file = try folder.write(text.utf8, as: "accounts")
            let run = try await piped.run(check + ["--connect", "--accounts", file])
            #expect(run.status == 78 && run.errors.contains(words) && !run.errors.contains("FAKE"), "\(run.errors)")
        }
        let good = try folder.write("one FAKE-password\ntwo FAKE-password\n".utf8, as: "accounts")
        let ccs = try folder.write(
            """
            database: {url: "postgresql:///nowhere"}
            senders: [{sender_id: "1234567890", host: h, secret_file: \(secret)}]
            """.utf8,
            as: "ccs.yaml"
        )
        let none = try await piped.run(["check", "--config", ccs, "--thorough", "--connect", "--accounts", good])
        #expect(none.status == 64 && none.errors.contains("no sender has dialect: xmpp"), "\(none.errors)")
        let sender = { (number: Int) in
            "{sender_id: c\(number), host: h\(number), domain: d.example, dialect: xmpp, secret_file: \(secret)}"
        }
        let several = try folder.write(
            "database: {url: \"postgresql:///nowhere\"}\nsenders: [\(sender(1)), \(sender(2))]\n".utf8,
            as: "several.yaml"
        )
        let two = try await piped.run(["check", "--config", several, "--thorough", "--connect", "--accounts", good])
        #expect(two.status == 64 && two.errors.contains("accounts at 2 servers"), "\(two.errors)")
        let audit = try await piped.run(["audit", "--against-archive", "--config", path])
        #expect(audit.status == 64 && audit.errors.contains("no sender has archive.catch_up"), "\(audit.errors)")
        let missing = try await piped.run(check + ["--connect", "--accounts", "/nowhere/accounts"])
        #expect(missing.status == 78 && missing.errors.contains("/nowhere/accounts"), "\(missing.errors)")
    }

    @Test("on a terminal init asks, again where an answer can't be right")
    func asks() async throws {
        let folder = try TemporaryFolder()
        let path = folder.url.appending(path: "worker.yaml").path
        let terminal = FakeTerminal(columns: 80)
        let answers = "\nxmpp\n\ncollector\nhttp://x\nxmpp.example.org\nexample.org\n\n"
        let run = try await terminal.run(["config", "init", path], input: answers)
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.errors.contains("Database (libpq URI) [postgresql:///upstream?host=/run/postgresql]: "))
        #expect(run.errors.contains("must be a host name") && run.errors.contains("it is needed"))
        #expect(run.errors.contains("systemd credential"))
        let shown = try await piped.run(["config", "show", "--config", path, "--changed", "--ndjson"])
        let keys = try shown.objects().compactMap { $0["key"] as? String }
        #expect(
            keys.sorted() == [
                "database.url", "senders.0.dialect", "senders.0.domain", "senders.0.host", "senders.0.secret_file",
                "senders.0.sender_id",
            ]
        )
        let ended = try await terminal.run(["config", "init", path + "2"], input: "\n")
        #expect(ended.status == 1 && !FileManager.default.fileExists(atPath: path + "2"))
    }

    @Test("show tells where each value comes from, masks passwords, and reports what is wrong")
    func show() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            """
            database: {url: "postgresql://u:FAKE-pw@h/d"}
            senders: [{sender_id: "1", host: h, secret_file: server-key}]
            """.utf8,
            as: "worker.yaml"
        )
        let terminal = FakeTerminal(columns: nil, environment: ["UPSTREAM_LOG__LEVEL": "debug"])
        let run = try await terminal.run(["config", "show", "--config", path, "--ndjson", "--set", "admin.listen=off"])
        #expect(run.status == 78 && run.errors.contains("must not hold a password"))
        #expect(!run.output.contains("FAKE-pw") && !run.errors.contains("FAKE-pw"))
        let rows = Dictionary(
            uniqueKeysWithValues: try run.objects().compactMap { row in (row["key"] as? String).map { ($0, row) } }
        )
        #expect(rows["database.url"]?["value"] as? String == "postgresql://u:***@h/d")
        #expect(rows["database.url"]?["line"] as? Int == 1 && rows["database.url"]?["file"] as? String == path)
        #expect(rows["log.level"]?["source"] as? String == "environment")
        #expect(rows["log.level"]?["variable"] as? String == "UPSTREAM_LOG__LEVEL")
        #expect(rows["admin.listen"]?["flag"] as? String == "--set")
        #expect(rows["database.writers"]?["source"] as? String == "default")
        #expect(rows["senders.0.secret_file"]?["value"] as? String == "server-key")

        let table = try await terminal.run(["config", "show", "log", "--config", path])
        #expect(table.output.contains("environment UPSTREAM_LOG__LEVEL") && !table.output.contains("database"))
        let near = try await terminal.run(["config", "show", "log.levle", "--config", path])
        #expect(near.status == 64 && near.errors.contains("did you mean 'log.level'?"))
    }

    @Test("env lists each variable of the table once, and those that are none of a key")
    func variables() async throws {
        let run = try await piped.run(["config", "env", "--ndjson"])
        let names = try run.objects().compactMap { $0["variable"] as? String }
        #expect(Set(names).count == names.count && names.contains("UPSTREAM_CONFIG"))
        #expect(Set(ConfigurationLoader.keys.map(\.environment)).isSubset(of: names))
        let part = try await FakeTerminal(columns: 100).run(["config", "env", "dedupe"])
        #expect(part.output.contains("UPSTREAM_RETENTION__DEDUPE_WINDOW") && part.lines.count == 3)
    }

    @Test("the JSON Schema that is shipped is the code's")
    func shippedSchema() async throws {
        let run = try await piped.run(["config", "schema"])
        let shipped = try String(contentsOf: Self.root.appending(path: "deploy/config.schema.json"), encoding: .utf8)
        #expect(run.output == shipped, "write it with: upstream-worker config schema > deploy/config.schema.json")
    }

    @Test("the example that is shipped is the code's, holds every key and is a configuration")
    func shippedExample() throws {
        let file = Self.root.appending(path: "deploy/config.example.yaml")
        let shipped = try String(contentsOf: file, encoding: .utf8)
        let example = ConfigurationTemplate(
            [
                "database.url": "postgresql:///upstream?host=/run/postgresql", "senders.N.sender_id": "1234567890",
                "senders.N.host": "fcm-xmpp.googleapis.com", "senders.N.domain": "fcm.googleapis.com",
                "senders.N.secret_file": "server-key",
            ],
            schema: "config.schema.json"
        )
        #expect(shipped == example.text)
        let read = try ConfigurationLoader(environment: [:]).effective(file: file.path)
        #expect(read.problems.isEmpty && read.values.contains { $0.key == "senders.0.sender_id" && !$0.isDefault })
    }

    /// What `Tests/Tools/json_schema.py` says about files: their errors by name, none for a valid one.
    private func judge(_ files: [String: String]) throws -> [String: [String]] {
        let folder = try TemporaryFolder()
        let paths = try files.map { try folder.write($0.value.utf8, as: $0.key + ".yaml") }
        let python = try TestTools.python()
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments =
            [TestTools.path("json_schema.py"), Self.root.appending(path: "deploy/config.schema.json").path] + paths
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "no \(python); make it with scripts/install-test-tools")
        return try JSONDecoder().decode([String: [String]].self, from: data)
    }

    @Test("a JSON Schema validator takes what the worker takes, and refuses what it refuses")
    func schema() throws {
        let example = Self.root.appending(path: "deploy/config.example.yaml")
        let sender = "senders: [{sender_id: '1', host: h, secret_file: /s}]"
        let valid = [
            "example": try String(contentsOf: example, encoding: .utf8),
            "whole": """
            database: {url: "postgresql:///d", writers: 4}
            senders: [{sender_id: 1234567890, host: h, port: 5236, secret_file: /s, keepalive: {interval: 10s}}]
            handlers:
              - {name: a, categories: ["*"], log: }
              - {name: b, categories: ["x"], retry: {initial: 2s}, sql: {function: app.f}}
              - {name: c, categories: ["y"], exec: {command: ["/bin/true", 5]}}
            retention: {attempts: 0}
            limits: {stanza: 1MiB, depth: 32}
            admin: {listen: off}
            console:
            """,
            "environment": "log: {level: debug}",
        ]
        let invalid = [
            "unknown": "databse: {url: x}", "nested": "database: {ulr: x}", "word": "log: {level: verbose}",
            "range": "database: {writers: 0}", "type": "database: {writers: many}", "unit": "shutdown: {grace: 25}",
            "duration": "shutdown: {grace: 25 s}", "list": "senders: {sender_id: '1'}",
            "required": "senders: [{host: h}]",
            "kinds": "handlers: [{name: a, categories: ['*'], log: {}, sql: {function: a.b}}]",
            "kindless": "handlers: [{name: a, categories: ['*']}]", "scalar": "admin: 9464",
            "size": "limits: {stanza: 5 KB}",
            "flag": sender.replacing("secret_file", with: "allow_plain: 1, secret_file"),
        ]
        let verdicts = try judge(valid.merging(invalid) { $1 })
        for name in valid.keys { #expect(verdicts[name] == [], "\(name)") }
        for name in invalid.keys { #expect(verdicts[name]?.isEmpty == false, "\(name)") }
        // The worker says the same of the invalid ones.
        for (name, yaml) in invalid {
            let error = #expect(throws: ConfigurationError.self, "\(name)") {
                try ConfigurationLoader(environment: ["UPSTREAM_DATABASE__URL": "postgresql:///d"])
                    .read(
                        yaml: yaml,
                        path: "\(name).yaml",
                        needsSenders: false,
                        parts: [.senders, .handlers, .console]
                    )
            }
            #expect(error != nil)
        }
    }
}
