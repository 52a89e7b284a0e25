import ConfigurationKeys
import Foundation
import Logging
import MessageStore
import Testing
import UpstreamKit
import Vocabulary
import XMLWire
import XMPP

@testable import Handlers
@testable import UpstreamConfiguration

struct ConfigurationTests {
    /// A folder with a secret in it, gone with the test.
    final class Folder {
        let path: String
        var secret: String { path + "/secret" }

        init() throws {
            path = NSTemporaryDirectory() + "configuration-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try write("secret", "k3y\n", 0o600)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func write(_ name: String, _ text: String, _ mode: Int = 0o644) throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path + "/" + name)
        }
    }

    let folder: Folder

    init() throws { folder = try Folder() }

    func read(
        _ yaml: String,
        _ environment: [String: String] = [:],
        _ overrides: [ConfigurationLoader.Override] = []
    ) throws(ConfigurationError) -> WorkerConfiguration {
        try ConfigurationLoader(environment: environment, overrides: overrides)
            .read(yaml: yaml.replacing("SECRET", with: folder.secret), path: "worker.yaml").configuration
    }

    func problems(_ yaml: String, _ environment: [String: String] = [:]) -> [String] {
        do throws(ConfigurationError) {
            _ = try read(yaml, environment)
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    var minimal: String {
        "database: {url: 'postgresql:///upstream'}\nsenders:\n  - {sender_id: '1', host: xmpp.example.com, secret_file: SECRET}\n"
    }

    @Test("a minimal file gets every default")
    func defaults() throws {
        let configuration = try read(minimal)
        let sender = try #require(configuration.senders.first)
        #expect(sender.port == 5235 && sender.connections == 2 && sender.stream.window == 100)
        #expect(sender.domain == "xmpp.example.com" && sender.serverName == "xmpp.example.com" && sender.caFile == nil)
        #expect(
            sender.tlsMode == .direct && sender.dialect == .ccs && sender.username == .jid
                && sender.stream.idScope == .sender
        )
        #expect(sender.stream.trustedFrom == ["devices@gcm.googleapis.com"])
        #expect(sender.stream.keepaliveInterval == .seconds(30) && sender.stream.keepaliveTimeout == .seconds(15))
        #expect(try sender.secretFile.lines() == [Array("k3y".utf8)])
        #expect(configuration.handlers.isEmpty)
        #expect(configuration.database.writers == 2 && configuration.database.batchLimit == 500)
        #expect(configuration.retention.messages == .seconds(30 * 86_400))
        #expect(configuration.retention.dedupeWindow == .seconds(35 * 86_400))
        #expect(configuration.limits.stanzaBytes == 262_144 && configuration.limits.depth == 64)
        #expect(configuration.shutdownGrace == .seconds(25))
        #expect(configuration.admin == .tcp(host: "127.0.0.1", port: 9464))
        #expect(configuration.logLevel == .info && configuration.logStyle == .auto)
    }

    @Test("every key of the whole example is understood")
    func whole() throws {
        try folder.write("ca.pem", "pem")
        let configuration = try read(Self.whole.replacing("FOLDER", with: folder.path))
        let sender = configuration.senders[0]
        #expect(sender.senderID == "1234567890" && sender.port == 5236 && sender.connections == 3)
        #expect(sender.tlsMode == .starttls && sender.caFile == folder.path + "/ca.pem" && sender.serverName == "other")
        #expect(
            sender.stream.idScope == .device && sender.stream.window == 50
                && sender.stream.keepaliveInterval == .seconds(10)
        )
        #expect(sender.domain == "fcm.googleapis.com" && sender.stream.trustedFrom == ["a@b", "c@d"])
        #expect(configuration.handlers.map(\.name) == ["orders", "billing", "legacy", "seen", "extra"])
        #expect(
            configuration.retention.deadLetters == .seconds(10 * 86_400) && configuration.retention.attempts == .zero
        )
        let orders = configuration.handlers[0]
        #expect(
            (orders.kind as? SQLKind)?.function == "app.take_order" && orders.concurrency == 8
                && orders.ordering == .device
        )
        #expect(
            orders.retry == RetryPolicy(maxAttempts: 5, initial: .seconds(2), maximum: .seconds(7200))
        )
        let webhook = try #require(configuration.handlers[1].kind as? WebhookKind)
        #expect(webhook.url == "http://billing.internal/upstream" && webhook.options.timeout == .milliseconds(2500))
        #expect(webhook.options.policy.allowed == ["10.0.0.0/8", "fd00::/8"].compactMap(Network.init))
        let exec = try #require(configuration.handlers[2].kind as? ExecKind)
        #expect(exec.command == ["/usr/lib/legacy/consume", "-v"] && exec.mode == .once)
        #expect(configuration.handlers[3].kind is LogKind)
        let plugin = try #require(configuration.handlers[4].kind as? PluginKind)
        let options = plugin.options
        #expect(options.library == folder.secret && options.configuration.isEmpty && options.processes == 1)
        #expect(options.memory == 0 && plugin.host == nil)
        #expect(configuration.categories == ["com.example.orders", "com.example.legacy", "b"])
        #expect(configuration.admin == .tcp(host: "::1", port: 0))
        #expect(configuration.logLevel == .debug && configuration.logStyle == .json)
        #expect(configuration.limits.stanzaBytes == 1 << 20 && configuration.limits.depth == 32)
    }

    private static let whole = """
        database: {url: "postgresql:///upstream?host=/run/postgresql", writers: 4, batch_limit: 100}
        senders:
          - sender_id: 1234567890
            host: 127.0.0.1
            port: 5236
            domain: fcm.googleapis.com
            connections: 3
            secret_file: SECRET
            tls: {mode: starttls, ca_file: FOLDER/ca.pem, server_name: other}
            dialect: ccs
            username: localpart
            window: 50
            id_scope: device
            trusted_from: ["a@b", "c@d"]
            keepalive: {interval: 10s, timeout: 5s}
        handlers:
          - name: orders
            categories: ["com.example.orders"]
            concurrency: 8
            ordering: device
            retry: {max_attempts: 5, initial: 2s, maximum: 2h}
            sql: {function: app.take_order}
          - name: billing
            categories: ["*"]
            webhook:
              url: http://billing.internal/upstream
              secret_file: SECRET
              timeout: 2500ms
              allow_networks: ["10.0.0.0/8", "fd00::/8"]
          - name: legacy
            categories: ["com.example.legacy"]
            exec: {command: ["/usr/lib/legacy/consume", "-v"], mode: once}
          - {name: seen, categories: ["*"], log: }
          - {name: extra, categories: ["b"], plugin: {path: SECRET}}
        retention: {messages: 28d, dedupe_window: 28d, dead_letters: 10d, attempts: 0}
        limits: {stanza: 1MiB, depth: 32}
        shutdown: {grace: 10s}
        admin: {listen: "[::1]:0"}
        log: {level: debug, format: json}
        """

    @Test("everything wrong is told at once, with line and key")
    func allAtOnce() {
        let found = problems(
            """
            database:
              url: postgresql://user:hunter2@db/upstream
              writers: 0
              batch_limt: 5
            senders:
              - sender_id: "a b"
                port: 70000
                secret_file: /nowhere/secret
                tls: {mode: ssl}
                keepalive: soon
              - {sender_id: x, host: "https://h", window: many, secret_file: SECRET}
            handlers:
              - {name: one, categories: [], sql: {function: f}}
              - {name: one, categories: ["a"], log: , sql: {function: a.b}}
              - {name: Two, categories: "*"}
            retention: {messages: 40d, dedupe_window: 20d}
            limits: {stanza: 5 KB}
            admin: {listen: "9464"}
            log: {level: verbose}
            window: 5
            """
        )
        let wanted = [
            "worker.yaml:2:3: database.url: must not hold a password; put it into a file and add passfile=/path (see ~/.pgpass)",
            "worker.yaml:3:3: database.writers: must be a whole number from 1 to 64, not '0'",
            "worker.yaml:4:3: database.batch_limt: unknown key; did you mean 'batch_limit'?",
            "worker.yaml:6:5: senders.0.sender_id: must be 1-64 letters, digits, '.', '_' or '-', not 'a b'",
            "worker.yaml:6:5: senders.0.host: is required",
            "worker.yaml:7:5: senders.0.port: must be a whole number from 1 to 65535, not '70000'",
            "worker.yaml:8:5: senders.0.secret_file: can't read '/nowhere/secret': No such file or directory",
            "worker.yaml:9:11: senders.0.tls.mode: must be one of direct, starttls, none, not 'ssl'",
            "worker.yaml:10:5: senders.0.keepalive: must be a mapping of keys",
            "worker.yaml:11:20: senders.1.host: must be a host name or an IP address, not 'https://h'",
            "worker.yaml:11:39: senders.1.window: must be a whole number from 1 to 10000, not 'many'",
            "worker.yaml:13:17: handlers.0.categories: must name at least one category, or \"*\"",
            "worker.yaml:13:39: handlers.0.sql.function: must be a function's name with its schema, such as app.take_order, not 'f'",
            "worker.yaml:14:5: handlers.1: must have exactly one of sql, webhook, exec, plugin, log; found sql, log",
            "worker.yaml:14:6: handlers.1.name: 'one' appears twice",
            "worker.yaml:15:6: handlers.2.name: must be 1 to 63 of a-z 0-9 _ . - and begin with a letter or digit, not 'Two'",
            "worker.yaml:15:17: handlers.2.categories: must be a list, such as [\"…\"]",
            "worker.yaml:15:5: handlers.2: must have exactly one of sql, webhook, exec, plugin, log; found none",
            "worker.yaml:16:28: retention.dedupe_window: must be at least 28d: a server may redeliver a message for that long",
            "worker.yaml:16:28: retention.dedupe_window: must not be shorter than retention.messages",
            "worker.yaml:17:10: limits.stanza: must be a size such as 256KiB, not '5 KB'",
            "worker.yaml:18:9: admin.listen: must be 'off' or host:port such as 127.0.0.1:9464 or [::1]:9464, not '9464'",
            "worker.yaml:20:1: window: unknown key here; did you mean 'senders.N.window'?",
        ]
        for line in wanted { #expect(found.contains(line), "missing: \(line)") }
        #expect(found.filter { !wanted.contains($0) }.allSatisfy { $0.contains(": log.level: must be one of trace, ") })
        #expect(found.count == wanted.count + 1)
        #expect(!found.joined().contains("hunter2"))
        let lines = found.compactMap { $0.split(separator: ":").dropFirst().first.flatMap { Int($0) } }
        #expect(lines == lines.sorted() && lines.count == found.count)
    }

    @Test(
        "shapes that are wrong",
        arguments: [
            ("- a\n", "worker.yaml:1:1: must be a mapping of sections, such as 'database:'"),
            ("database: [1]\n", "worker.yaml:1:1: database: must be a mapping of keys"),
            ("database: {url: [a]}\n", "worker.yaml:1:12: database.url: must be one value, not a list"),
            ("database: {url: {a: b}}\n", "worker.yaml:1:12: database.url: must be one value, not a mapping"),
            ("senders: {a: b}\n", "worker.yaml:1:1: senders: must be a list: begin each entry with '- '"),
            ("senders: [a]\n", "worker.yaml:1:11: senders.0: must be a mapping of keys"),
            ("database: &d {url: x}\n", "database: uses a YAML anchor"),
            ("log: {level: info, level: debug}\n", "holds a key twice: level"),
            ("log:\n\tlevel: info\n", "worker.yaml:2:1: is not YAML"),
            ("a.b: 1\n", "worker.yaml:1:1: has a key that is not a plain name"),
            ("{}\n---\n{}\n", "is not YAML: but found another document"),
            ("database: {}\n", "database.url: is required"),
            ("", "configuration: senders: must list at least one sender"),
        ]
    )
    func shapes(yaml: String, problem: String) {
        #expect(problems(yaml).contains { $0.contains(problem) }, "\(problems(yaml))")
    }

    @Test("a bomb of aliases is refused at once")
    func bomb() {
        var yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        for level in 1..<30 {
            yaml +=
                "a\(level): &a\(level) [" + Array(repeating: "*a\(level - 1)", count: 9).joined(separator: ", ") + "]\n"
        }
        #expect(problems(yaml).contains { $0.contains("anchors and aliases are not supported") })
    }

    @Test("flags beat the environment, which beats the file")
    func precedence() throws {
        let file = minimal + "log: {level: error}\nshutdown: {grace: 5s}\nadmin: {listen: off}\n"
        let environment = [
            "UPSTREAM_LOG__LEVEL": "debug", "UPSTREAM_SHUTDOWN__GRACE": "6s", "UPSTREAM_SENDERS__0__HOST": "other",
            "UPSTREAM_SENDERS__0__KEEPALIVE__INTERVAL": "9s", "UPSTREAM_CONFIG": "ignored", "PATH": "/bin",
        ]
        let flag = ConfigurationLoader.Override(key: "log.level", value: "trace", flag: "--set")
        let configuration = try read(file, environment, [flag])
        #expect(configuration.logLevel == .trace)
        #expect(configuration.shutdownGrace == .seconds(6))
        #expect(configuration.admin == .off)
        #expect(
            configuration.senders[0].host == "other" && configuration.senders[0].stream.keepaliveInterval == .seconds(9)
        )
    }

    @Test("the environment alone can configure everything")
    func environmentOnly() throws {
        var environment = ["UPSTREAM_DATABASE__URL": "dbname=upstream"]
        for index in 0..<12 {
            environment["UPSTREAM_SENDERS__\(index)__SENDER_ID"] = "id\(index)"
            environment["UPSTREAM_SENDERS__\(index)__HOST"] = "h"
            environment["UPSTREAM_SENDERS__\(index)__SECRET_FILE"] = folder.secret
        }
        environment["UPSTREAM_SENDERS__0__TRUSTED_FROM__0"] = "x@y"
        let configuration = try read("", environment)
        #expect(configuration.senders.map(\.senderID) == (0..<12).map { "id\($0)" })
        #expect(configuration.senders[0].stream.trustedFrom == ["x@y"])
    }

    @Test("problems name the variable or the flag they come from")
    func origins() {
        #expect(
            problems(minimal, ["UPSTREAM_LOG__LEVLE": "debug"])
                == [
                    "environment UPSTREAM_LOG__LEVLE: log.levle: unknown variable; did you mean UPSTREAM_LOG__LEVEL?"
                ]
        )
        #expect(
            problems(minimal, ["UPSTREAM_DATABASE__WRITERS": "x"])
                == [
                    "environment UPSTREAM_DATABASE__WRITERS: database.writers: must be a whole number from 1 to 64, not 'x'"
                ]
        )
        #expect(throws: ConfigurationError.self) {
            try read(minimal, [:], [.init(key: "log.colour", value: "red", flag: "--set")])
        }
    }

    @Test("a bare name is a systemd credential")
    func credentials() throws {
        let yaml = minimal.replacing("SECRET", with: "secret")
        #expect(try read(yaml, ["CREDENTIALS_DIRECTORY": folder.path]).senders[0].secretFile.path == folder.secret)
        #expect(problems(yaml).first?.contains("systemd credential") == true)
    }

    @Test("a secret that everybody may read is worth a warning, an empty one a problem")
    func secretFiles() throws {
        try folder.write("open", "k3y", 0o644)
        let yaml = minimal.replacing("SECRET", with: folder.path + "/open")
        let result = try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "worker.yaml")
        #expect(result.warnings.map(\.key) == ["senders.0.secret_file"])
        try folder.write("empty", "")
        #expect(problems(minimal.replacing("SECRET", with: folder.path + "/empty")).first?.contains("is empty") == true)
    }

    @Test("a file that isn't there is no input; one that isn't text is a bad configuration")
    func files() throws {
        let loader = ConfigurationLoader(environment: [:])
        #expect { try loader.load(file: "/nowhere/worker.yaml") } throws: {
            ($0 as? ConfigurationError)?.kind == .noInput
        }
        #expect { try loader.load(file: folder.path) } throws: { ($0 as? ConfigurationError)?.kind == .invalid }
        try Data([0xFF, 0xFE]).write(to: URL(fileURLWithPath: folder.path + "/binary"))
        #expect { try loader.load(file: folder.path + "/binary") } throws: {
            ($0 as? ConfigurationError)?.kind == .invalid
        }
    }

    @Test("docs/configuration.md is the code's")
    func reference() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let file = root.appendingPathComponent("docs/configuration.md")
        let shipped = try String(contentsOf: file, encoding: .utf8)
        #expect(
            shipped == ConfigurationReference.page + "\n",
            "write it with: upstream-worker config reference > docs/configuration.md"
        )
        for key in ConfigurationLoader.keys { #expect(shipped.contains("\n|`\(key.path)`|")) }
        #expect(Set(ConfigurationLoader.keys.map(\.path)).count == ConfigurationLoader.keys.count)
    }

    @Test("every default is a value of its type")
    func defaultsParse() {
        for key in ConfigurationLoader.keys { #expect(!key.meaning.isEmpty && !key.type.isEmpty) }
    }
}
