import ConfigurationKeys
import Foundation
import Logging
import Querying
import Testing
import XMPP

@testable import UpstreamConfiguration

/// What commands read of a configuration that is not theirs, and what they say about one that is wrong.
extension ConfigurationTests {
    /// As on a server with systemd: credentials that only the unit has, files that only the worker's user may read.
    private var units: String {
        """
        database: {url: "postgresql:///upstream?host=/run/postgresql"}
        senders:
          - {sender_id: "1", host: a.example.com, secret_file: server-key, tls: {ca_file: /nowhere/ca.pem}}
        handlers:
          - name: billing
            categories: ["*"]
            webhook: {url: "https://billing.example.com/", secret_file: /nowhere/billing}
          - {name: extra, categories: ["*"], plugin: {path: /nowhere/extra.so}}
        console:
          tokens: [{file: console-operator, role: operator}]
          tls: {certificate_file: /nowhere/cert.pem, key_file: console-key}
        """
    }

    private func read(handler: String) throws -> WorkerConfiguration {
        let yaml = """
            database: {url: "postgresql:///upstream"}
            handlers:
              - \(handler)
            """
        return try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "worker.yaml", needsSenders: false)
            .configuration
    }

    @Test(
        "a star inside a category's name is refused with what would be right",
        arguments: ["com.*.orders", "com.exam*", "**"]
    )
    func misplacedStar(category: String) throws {
        let error = #expect(throws: ConfigurationError.self) {
            try read(handler: #"{name: a, categories: ["\#(category)"], log: {}}"#)
        }
        let text = try #require(error?.problems.first?.message)
        #expect(text.contains("exact name") && text.contains("com.example.*") && text.contains(category), "\(text)")
    }

    @Test("prefixes and conditions are read")
    func conditions() throws {
        let handler = try read(
            handler: #"{name: a, categories: ["com.example.*"], where: ["data.total>=100", "data.x exists"], log: {}}"#
        ).handlers[0]
        #expect(handler.categories == ["com.example.*"] && handler.filter.clauses.count == 2)
        let none = try read(handler: #"{name: a, categories: ["*"], where: [], log: {}}"#).handlers[0]
        #expect(none.filter.form == nil)
    }

    @Test(
        "a condition that can't be parsed is reported with file, line, key and the place inside it",
        arguments: [
            ("total>=100", 1, "begins with 'data'"), ("data.a==5", 8, "not a comparison"),
            ("data.a", 7, "a comparison is missing"), (#"data.a="x"#, 8, "not closed"),
            ("data.a~(x)\\1", 11, "back references"),
        ]
    )
    func brokenCondition(clause: String, place: Int, reason: String) throws {
        let error = #expect(throws: ConfigurationError.self) {
            try read(handler: "{name: a, categories: [\"*\"], where: [\"data.b=1\", '\(clause)'], log: {}}")
        }
        let text = try #require(error?.problems.first.map { "\($0)" })
        #expect(error?.problems.count == 1 && text.hasPrefix("worker.yaml:3:"), "\(text)")
        #expect(text.contains("handlers.0.where.1: ") && text.contains(reason), "\(text)")
        #expect(text.contains("(character \(place) of '"), "\(text)")
    }

    @Test("a command that needs the database alone reads no secret, certificate or library of the others' parts")
    func databaseAlone() throws {
        let loader = ConfigurationLoader(environment: [:])
        let read = try loader.read(yaml: units, path: "worker.yaml", needsSenders: false, parts: [])
        #expect(read.configuration.database.url.hasSuffix("/run/postgresql") && read.configuration.senders.isEmpty)
        #expect(throws: ConfigurationError.self) { try loader.read(yaml: units, path: "worker.yaml") }
        // The unit's own parts are apart as well.
        for part in ConfigurationPart.allCases {
            #expect(throws: ConfigurationError.self, "\(part)") {
                try loader.read(yaml: units, path: "worker.yaml", needsSenders: false, parts: [part])
            }
        }
        // A mistyped key is found by every command.
        let mistyped = units.replacing("sender_id", with: "sender_ib")
        let error = #expect(throws: ConfigurationError.self) {
            try loader.read(yaml: mistyped, path: "worker.yaml", needsSenders: false, parts: [])
        }
        #expect(error?.description.contains("did you mean 'sender_id'?") == true)
    }

    @Test(
        "a file that is not YAML is reported by itself: nothing that it does not hold is missed",
        arguments: ["database: [open\nlog: {}", "database:\n\twriters: 2\n", "a: 1\na: 2\n", "log: {level: 'x}\n"]
    )
    func yamlAlone(_ yaml: String) {
        let found = problems(yaml, ["UPSTREAM_LOG__LEVLE": "debug"])
        #expect(found.count == 1, "\(found)")
        #expect(found.first?.hasPrefix("worker.yaml:") == true)
    }

    @Test(
        "a secret of spaces, line ends or NUL is refused, and none of it is a line",
        arguments: [
            (" \t \n\r\n", "empty or blank"), ("\n", "empty or blank"), ("k\u{0}3y\n", "NUL"), ("\u{0}", "NUL"),
        ]
    )
    func blankSecrets(_ secret: String, _ why: String) throws {
        try folder.write("blank", secret, 0o600)
        let found = problems(minimal.replacing("SECRET", with: folder.path + "/blank"))
        let problem = try #require(found.first, "the secret is taken")
        #expect(
            found.count == 1 && problem.contains("senders.0.secret_file: '\(folder.path)/blank' holds "),
            "\(found)"
        )
        #expect(problem.contains(why) && !problem.contains("3y"))
        // A file that is replaced while the worker runs.
        let lines = try? SecretFile(path: folder.path + "/blank").lines()
        #expect(lines == nil || lines == [])
    }

    @Test("a secret's file is a regular one that nobody else can write, and a pipe holds nobody up")
    func guardedSecrets() throws {
        #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
        try folder.write("open", "k3y\n", 0o666)
        try folder.write("shared", "k3y\n", 0o660)
        for (path, why) in [
            (folder.path + "/pipe", "is a pipe"), ("/dev/zero", "is a device"), (folder.path, "is a directory"),
            (folder.path + "/open", "can be written by every user"),
            (folder.path + "/shared", "can be written by its whole"),
        ] {
            let found = problems(minimal.replacing("SECRET", with: path))
            #expect(found.count == 1 && found[0].contains("senders.0.secret_file: '\(path)' \(why)"), "\(found)")
            // A file that is replaced while the worker runs.
            #expect((try? SecretFile(path: path).lines()) == nil)
        }
        #expect(try SecretFile(path: folder.path + "/open").lines(isGuarded: false) == [Array("k3y".utf8)])
        // What is no secret others may write, but a pipe would wait for its writer, too.
        try folder.write("key", "k3y\n", 0o600)
        let sender = minimal.replacing("SECRET", with: folder.path + "/key")
        for (name, why) in [("pipe", "is a pipe"), ("shared", nil)] {
            let found = problems("\(sender)\ntracing: {endpoint: 'https://x', ca_file: '\(folder.path)/\(name)'}\n")
            #expect(found.count == (why == nil ? 0 : 1) && why.map { found[0].contains($0) } != false, "\(found)")
        }
    }

    @Test(
        "a blank line beside a secret is none, nor is an editor's byte order mark; a space within a secret belongs to it"
    )
    func secretLines() throws {
        try folder.write("two", "\u{FEFF}one two\n  \n\nthree\n", 0o600)
        #expect(try SecretFile(path: folder.path + "/two").lines() == [Array("one two".utf8), Array("three".utf8)])
    }

    @Test("no suggestion repeats what was written")
    func noEcho() throws {
        let variable = problems(minimal, ["UPSTREAM_SENDERS__5__HOST": "x"])
        #expect(variable.count == 1 && !variable[0].contains("did you mean"), "\(variable)")
        #expect(variable[0].contains("element 5 of the list 'senders', which has 1: elements are numbered from 0"))
        let section = problems(minimal, ["UPSTREAM_HANDLERS__3__RETRY__INITIAL": "1s"])
        #expect(section.count == 1 && section[0].contains("the list 'handlers', which has 0"), "\(section)")
        let flag = #expect(throws: ConfigurationError.self) {
            try read(minimal, [:], [.init(key: "senders.7.tls.mode", value: "direct", flag: "--set")])
        }
        #expect(flag?.description.contains("did you mean") == false)
        for name in ConfigurationLoader.keys.map(\.environment) {
            let name = name.replacing("__N__", with: "__9__")
            for problem in problems(minimal, [name: "x"]) {
                #expect(!problem.contains("did you mean \(name)?") && !problem.contains("did you mean '\(name)'"))
            }
        }
    }

    @Test("values are shown with where they come from, without looking at the files that they name")
    func effective() throws {
        try folder.write("worker.yaml", units + "\nlog: {level: debug}\n")
        let loader = ConfigurationLoader(
            environment: ["UPSTREAM_DATABASE__WRITERS": "3", "UPSTREAM_CONFIG": folder.path + "/worker.yaml"],
            overrides: [.init(key: "admin.listen", value: "off", flag: "--set")]
        )
        let shown = try loader.effective(file: nil)
        #expect(shown.problems == [], "\(shown.problems)")
        func source(_ key: String) -> String? { shown.values.first { $0.key == key }?.source }
        func value(_ key: String) -> EffectiveValue.Value? { shown.values.first { $0.key == key }?.value }
        #expect(source("log.level") == "\(folder.path)/worker.yaml:12" && value("log.level") == .text("debug"))
        #expect(source("database.writers") == "environment UPSTREAM_DATABASE__WRITERS")
        #expect(source("admin.listen") == "flag --set" && value("admin.listen") == .text("off"))
        #expect(source("database.batch_limit") == "default" && value("database.batch_limit") == .text("500"))
        #expect(value("senders.0.secret_file") == .text("server-key") && value("senders.0.tls.ca_file") != nil)
        #expect(value("handlers.0.categories") == .list(["*"]) && value("senders.0.tls.server_name") == nil)
        #expect(Set(shown.values.map(\.key)).count == shown.values.count)
    }

    @Test("a template holds every key, and what is given in it is read back")
    func template() throws {
        let values = [
            "database.url": "postgresql:///upstream", "senders.N.sender_id": "42", "senders.N.host": "h.example.com",
            "senders.N.secret_file": folder.secret, "senders.N.tls.mode": "starttls", "log.level": "debug",
        ]
        let text = ConfigurationTemplate(values).text
        let read = try read(text)
        #expect(read.senders.map(\.senderID) == ["42"] && read.senders[0].tlsMode == .starttls)
        #expect(read.logLevel == .debug && read.handlers.isEmpty && read.database.writers == 2)
        for key in ConfigurationLoader.keys {
            let name = key.path.split(separator: ".").last.map(String.init) ?? ""
            #expect(text.contains("\(name):"), "\(key.path)")
        }
        #expect(text.split(separator: "\n").allSatisfy { $0.count <= 130 })
    }

    @Test("every commented key of the template is one that can be uncommented")
    func uncommented() throws {
        let text = ConfigurationTemplate(["database.url": "postgresql:///upstream"]).text
        // All of it: what is a key begins right behind the sign, what explains it behind a space.
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let indent = line.prefix { $0 == " " }
            let rest = line.dropFirst(indent.count)
            guard rest.hasPrefix("#"), !rest.hasPrefix("# ") else { return String(line) }
            return String(indent + rest.dropFirst())
        }
        let found = problems(lines.joined(separator: "\n"))
        // Values are missing where there is no default; no key is unknown or in a wrong place.
        #expect(!found.isEmpty)
        #expect(!found.contains { $0.contains("unknown") || $0.contains("YAML") || $0.contains("mapping") }, "\(found)")
    }
}
