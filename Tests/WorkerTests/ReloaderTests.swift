import ConfigurationKeys
import Foundation
import IntegrationSupport
import Logging
import Synchronization
import Telemetry
import Testing

@testable import UpstreamConfiguration
@testable import Worker

/// What SIGHUP does: what takes effect at once, what waits for a restart, and what a mistake leaves as it is.
@Suite("reading the configuration again")
struct ReloaderTests {
    private static let yaml = """
        database: {url: "postgresql:///upstream"}
        senders:
          - {sender_id: "1", host: a.example, secret_file: SECRET}
        handlers:
          - {name: orders, categories: ["a"], log: {}, retry: {max_attempts: 5}}
          - {name: billing, categories: ["b"], log: {}}
        log: {level: info}

        """

    private let folder = try? TemporaryFolder()
    private let logs = MemoryLogOutput()
    private let threshold = LogThreshold(.info)

    private func read(_ yaml: String) throws -> ConfigurationLoader.Result {
        let secret = try #require(folder).write("FAKE-key".utf8, as: "key")
        return try ConfigurationLoader(environment: [:])
            .read(yaml: yaml.replacing("SECRET", with: secret), path: "c.yaml")
    }

    private func change(_ old: String, _ new: String) throws -> ConfigurationChange {
        ConfigurationChange(from: try read(Self.yaml), to: try read(Self.yaml.replacing(old, with: new)))
    }

    private func line(_ event: String) throws -> [String: Any]? {
        let lines = logs.lines.filter { $0.contains("\"\(event)\"") }
        #expect(lines.count < 2)
        guard let line = lines.first else { return nil }
        return try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }

    /// A reloader that reads these one after the other; `nil` can't be read.
    private func reloader(_ texts: [String?]) throws -> Reloader {
        let rest = Mutex(texts)
        return Reloader(
            running: try read(Self.yaml),
            threshold: threshold,
            logger: Logger.lines(label: "test", level: .trace, format: .json, output: logs)
        ) {
            let next = rest.withLock { $0.removeFirst() }
            guard let next else { throw WaitedTooLong(description: "c.yaml:3: wrong\nand c.yaml:4: too") }
            return try self.read(next)
        } adopt: { configuration in
            if configuration.handlers.contains(where: { $0.name == "impossible" }) {
                throw WorkerError.unusable(["handlers.0: impossible"])
            }
        }
    }

    @Test("a credential whose file is newer than what systemd gave the unit is named at a reload")
    func credentials() throws {
        let (unit, etc) = (try TemporaryFolder(), try TemporaryFolder())
        let config = etc.url.appending(path: "config.yaml").path
        for name in ["same", "changed"] {
            for folder in [etc, unit] { _ = try folder.write("FAKE".utf8, as: name) }
        }
        _ = try unit.write("FAKE".utf8, as: "elsewhere")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: 60)],
            ofItemAtPath: etc.url.appending(path: "changed").path
        )
        let files = ConfigurationFiles(credentials: unit.url.path)
        #expect(files.changedCredentials(beside: config) == ["changed"])
        #expect(ConfigurationFiles(credentials: nil).changedCredentials(beside: config).isEmpty)
        let secret = try etc.write("FAKE-key".utf8, as: "key")
        let yaml = Self.yaml.replacing("SECRET", with: secret)
        let loader = ConfigurationLoader(environment: ["CREDENTIALS_DIRECTORY": unit.url.path])
        let reloader = Reloader(
            running: try loader.read(yaml: yaml, path: config),
            threshold: threshold,
            logger: Logger.lines(label: "test", level: .trace, format: .json, output: logs)
        ) { try loader.read(yaml: yaml, path: config) }
        reloader.reload()
        #expect(try line("configuration.credentials_changed")?["keys"] as? String == "changed")
    }

    @Test("nothing changed: nothing is named, however it is written")
    func same() throws {
        let none = try change("x", "x")
        #expect(none.adopted.isEmpty && none.awaiting.isEmpty)
        let other = try change("log: {level: info}", "log: {level: \"info\"}\nshutdown: {grace: 25s}")
        #expect(other.adopted.isEmpty && other.awaiting.isEmpty, "a default written out is no difference")
    }

    @Test(
        "log.level and the retry settings take effect at once",
        arguments: [
            ("level: info", "level: debug", "log.level"),
            ("max_attempts: 5", "max_attempts: 6", "handlers.0.retry.max_attempts"),
            ("\"b\"], log: {}", "\"b\"], log: {}, retry: {maximum: 2h}", "handlers.1.retry.maximum"),
        ]
    )
    func adopts(_ old: String, _ new: String, _ key: String) throws {
        let change = try change(old, new)
        #expect(change.adopted == [key] && change.awaiting.isEmpty)
    }

    @Test(
        "everything else waits for a restart, and is named",
        arguments: [
            ("a.example", "b.example", ["senders.0.host"]),
            ("name: billing", "name: other", ["handlers.1.name"]),
            ("log: {level: info}", "log: {level: info}\ndatabase: {}", nil),
            ("log: {level: info}", "log: {level: info}\nretention: {messages: 20d}", ["retention.messages"]),
            (
                "  - {name: billing, categories: [\"b\"], log: {}}\n", "",
                ["handlers.1.categories.0", "handlers.1.name"]
            ),
        ]
    )
    func awaits(_ old: String, _ new: String, _ keys: [String]?) throws {
        guard let keys else {
            #expect(throws: ConfigurationError.self) { try change(old, new) }
            return
        }
        let found = try change(old, new)
        #expect(found.awaiting == keys && found.adopted.isEmpty)
    }

    @Test("another handler at the same place does not get the retry settings of the one before")
    func moved() throws {
        let change = try change(
            "name: orders, categories: [\"a\"], log: {}, retry: {max_attempts: 5}",
            "name: fresh, categories: [\"a\"], log: {}, retry: {max_attempts: 9}"
        )
        #expect(change.adopted.isEmpty)
        #expect(change.awaiting == ["handlers.0.name", "handlers.0.retry.max_attempts"])
    }

    @Test("a handler is known by its name: at another place it takes its retry settings, and nothing else has changed")
    func swapped() throws {
        let lines = Self.yaml.split(separator: "\n").map(String.init)
        let orders = try #require(lines.first { $0.contains("orders") })
        let billing = try #require(lines.first { $0.contains("billing") })
        let new = Self.yaml.replacing(orders, with: "FIRST").replacing(billing, with: orders)
            .replacing("FIRST", with: billing)
        let change = try change(Self.yaml, new)
        #expect(change.adopted.isEmpty && change.awaiting.isEmpty)
        let other = new.replacing("max_attempts: 5", with: "max_attempts: 6")
        let reloader = try reloader([other, other, Self.yaml])
        for _ in 0..<3 { reloader.reload() }
        let keys = logs.lines.filter { $0.contains("\"configuration.") }.map { line in
            line.split(separator: "\"keys\":").last.map { $0.prefix { $0 != "}" } } ?? ""
        }
        let path = "retry.max_attempts"
        #expect(keys == ["\"handlers.1.\(path)\"", "\"\"", "\"handlers.0.\(path)\""])
    }

    @Test("the level changes, the log names what changed and what waits, without any value")
    func reload() throws {
        let new = Self.yaml.replacing("level: info", with: "level: debug").replacing(
            "a.example",
            with: "hidden.example"
        )
        let reloader = try reloader([new, new])
        reloader.reload()
        #expect(threshold.level == .debug)
        #expect(try line("configuration.reloaded")?["keys"] as? String == "log.level")
        #expect(try line("configuration.needs_restart")?["keys"] as? String == "senders.0.host")
        #expect(!logs.lines.joined().contains("hidden.example"))
    }

    @Test("what waits for a restart is named again at the next reload; what took effect is not")
    func again() throws {
        let new = Self.yaml.replacing("level: info", with: "level: debug").replacing("a.example", with: "b.example")
        let reloader = try reloader([new, new, Self.yaml])
        for _ in 0..<3 { reloader.reload() }
        let keys = logs.lines.filter { $0.contains("\"configuration.") }.map { line in
            line.split(separator: "\"keys\":").last.map { $0.prefix { $0 != "}" } } ?? ""
        }
        #expect(keys == ["\"log.level\"", "\"senders.0.host\"", "\"\"", "\"senders.0.host\"", "\"log.level\""])
        #expect(threshold.level == .info)
    }

    @Test("a mistake leaves everything as it is, and is told in one line", arguments: [true, false])
    func mistake(_ isUnreadable: Bool) throws {
        let bad = Self.yaml.replacing("name: orders", with: "name: impossible").replacing(
            "level: info",
            with: "level: trace"
        )
        let reloader = try reloader([isUnreadable ? nil : bad, Self.yaml])
        reloader.reload()
        #expect(threshold.level == .info)
        let error = try #require(try line("configuration.reload_failed")?["error"] as? String)
        #expect(error == (isUnreadable ? "c.yaml:3: wrong; and c.yaml:4: too" : "handlers.0: impossible"))
        #expect(try line("configuration.reloaded") == nil)
        reloader.reload()
        #expect(try line("configuration.reloaded")?["keys"] as? String == "")
        #expect(try line("configuration.needs_restart") == nil)
    }

    @Test("signals that come while one is worked on are worked on one after the other")
    func concurrent() async throws {
        let reloader = try reloader(
            (0..<20).map {
                Self.yaml.replacing("level: info", with: $0.isMultiple(of: 2) ? "level: debug" : "level: info")
            }
        )
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { reloader.reload() } }
        }
        #expect(logs.lines.count { $0.contains("\"configuration.reloaded\"") } == 20)
        #expect(logs.lines.count { $0.contains("\"keys\":\"log.level\"") } == 20)
        #expect(threshold.level == .info)
    }
}
