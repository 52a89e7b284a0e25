import ConfigurationKeys
import Testing
import Vocabulary

@testable import UpstreamConfiguration

/// The section `console`.
@Suite struct ConsoleConfigurationTests {
    private static let database = "database: {url: 'postgresql:///upstream'}\n"
    private let folder: ConfigurationTests.Folder

    init() throws {
        folder = try ConfigurationTests.Folder()
        try folder.write("token", "FAKE-0123456789-0123456789-0123456789\n", 0o600)
        try folder.write("short", "FAKE-short\n", 0o600)
    }

    private func read(
        _ yaml: String,
        _ parts: Set<ConfigurationPart> = [.console]
    ) throws(ConfigurationError) -> ConfigurationLoader.Result {
        try ConfigurationLoader(environment: [:])
            .read(
                yaml: Self.database + yaml.replacing("FOLDER", with: folder.path),
                path: "worker.yaml",
                needsSenders: false,
                parts: parts
            )
    }

    private func problems(_ yaml: String, _ parts: Set<ConfigurationPart> = [.console]) -> [String] {
        do throws(ConfigurationError) {
            _ = try read(yaml, parts)
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    @Test("without the section it listens on loopback, for nobody in particular")
    func defaults() throws {
        let console = try #require(try read("").configuration.console)
        #expect(console.listen == .tcp(host: "127.0.0.1", port: 9465) && console.isOnLoopback)
        #expect(console.tokens.isEmpty && console.proxy == nil && console.tls == nil && console.hosts.isEmpty)
        #expect(console.payloads == .shown && console.sessionLifetime == .seconds(43_200))
        #expect(console.database == .init(url: nil, sessions: 4, statementTimeout: .seconds(10)))
    }

    @Test("every key is understood")
    func whole() throws {
        try folder.write("certificate.pem", "pem")
        let result = try read(
            """
            console:
              listen: "0.0.0.0:8443"
              name: staging
              colour: orange
              hosts: [console.example.com, 10.1.2.3]
              tokens:
                - {file: FOLDER/token, role: operator, name: on-call, reveal: true}
              proxy:
                networks: [10.0.0.0/8]
                header: Remote-User
                roles:
                  - {user: ada, role: auditor, reveal: true}
                  - {user: "*", role: viewer}
              tls: {certificate_file: FOLDER/certificate.pem, key_file: FOLDER/secret}
              payloads: hidden
              session_lifetime: 1h
              database: {url: "postgresql://console@/upstream", sessions: 2, statement_timeout: 3s}
            """
        )
        let console = try #require(result.configuration.console)
        #expect(console.listen == .tcp(host: "0.0.0.0", port: 8443) && !console.isOnLoopback)
        #expect(console.hosts == ["console.example.com", "10.1.2.3"] && console.payloads == .hidden)
        #expect(console.name == "staging" && console.colour == .orange)
        let token = try #require(console.tokens.first)
        #expect(token.role == .operator_ && token.name == "on-call" && token.reveals)
        let proxy = try #require(console.proxy)
        #expect(proxy.networks == [Network("10.0.0.0/8")] && proxy.header == "Remote-User")
        #expect(proxy.users.map(\.name) == ["ada", "*"] && proxy.users.map(\.reveals) == [true, false])
        #expect(console.tls?.certificateFile == folder.path + "/certificate.pem")
        #expect(console.database.url == "postgresql://console@/upstream" && console.database.sessions == 2)
        #expect(result.warnings.isEmpty)
    }

    @Test(
        "what would let strangers in is refused, with the fix",
        arguments: [
            ("listen: '0.0.0.0:9465'", "console.listen: lets everybody in"),
            ("listen: '[::]:9465'", "127.0.0.1"),
            ("tokens: [{file: FOLDER/short, role: viewer}]", "openssl rand -hex 32"),
            ("tokens: [{file: FOLDER/token, role: admin}]", "must be one of viewer, operator, auditor"),
            ("tokens: [{file: FOLDER/token, role: viewer}, {file: FOLDER/token, role: auditor}]", "twice"),
            ("proxy: {roles: [{user: '*', role: viewer}]}", "console.proxy.networks: must name"),
            ("proxy: {networks: [10.0.0.0/8]}", "console.proxy.roles: must say who may what"),
            ("proxy: {networks: [10.0.0.0/8], header: Cookie, roles: [{user: a, role: viewer}]}", "another meaning"),
            ("database: {url: 'postgresql://a:b@/upstream'}", "console.database.url: must not hold a password"),
            ("tls: {certificate_file: FOLDER/secret}", "console.tls.key_file: is required"),
            (
                "{tokens: [{file: FOLDER/token, role: viewer, name: ada}], "
                    + "proxy: {networks: [10.0.0.0/8], roles: [{user: ada, role: viewer}]}}",
                "console.proxy.roles: names 'ada', as a token"
            ),
            ("hosts: ['https://a']", "a host name without a port"),
            ("hosts: [localhost, console.example]", "console.hosts: names another host than this machine"),
            ("token: x", "did you mean 'tokens'?"), ("colour: pink", "must be one of blue, green,"),
        ]
    )
    func refused(_ yaml: String, _ problem: String) {
        let found = problems("console:\n  \(yaml)\n")
        #expect(found.contains { $0.contains(problem) }, "\(found)")
        #expect(!found.contains { $0.contains("FAKE") })
    }

    @Test(
        "a token that acts or reveals under no person's name is warned of: the audit trail would name nobody",
        arguments: [
            ("role: operator, name: operator", true), ("role: operator, name: kim", false), ("role: operator", true),
            ("role: viewer, reveal: true", true), ("role: viewer", false), ("role: auditor", false),
        ]
    )
    func roleForName(_ token: String, _ isWarned: Bool) throws {
        let warnings = try read("console:\n  tokens: [{file: FOLDER/token, \(token)}]").warnings.map(\.description)
        #expect(warnings.contains { $0.contains("would not say who acts") } == isWarned, "\(warnings)")
        #expect(isWarned || warnings.isEmpty)
    }

    @Test("a proxy may end TLS only: then tokens sign in")
    func proxyWithoutUsers() throws {
        let yaml = """
            console:
              listen: '10.1.2.3:9465'
              hosts: [console.example]
              proxy: {networks: [10.0.0.0/8]}
              tokens: [{file: FOLDER/token, role: viewer}]
            """
        let result = try read(yaml)
        let proxy = try #require(result.configuration.console?.proxy)
        #expect(proxy.users.isEmpty && proxy.networks == [Network("10.0.0.0/8")] && result.warnings.isEmpty)
    }

    @Test(
        "a proxy on this machine is warned about where it signs people in",
        arguments: ["127.0.0.1/32", "::/0", "0.0.0.0/0"]
    )
    func localProxy(_ network: String) throws {
        let proxy = "console: {proxy: {networks: ['10.0.0.0/8', '\(network)']"
        let warnings = try read(proxy + ", roles: [{user: '*', role: viewer}]}}\n").warnings
        #expect(warnings.contains { $0.message.contains("any user of console.proxy.roles") })
        #expect(try read(proxy + "}, tokens: [{file: FOLDER/token, role: viewer}]}\n").warnings.isEmpty)
    }

    @Test("loopback's own names need nobody to sign in")
    func ownNames() {
        #expect(problems("console: {hosts: [localhost, LOCALHOST, '127.0.0.1', '::1']}\n") == [])
    }

    @Test("tokens beyond loopback without TLS are warned about")
    func clear() throws {
        let yaml = "console: {listen: '0.0.0.0:1', tokens: [{file: FOLDER/token, role: viewer}]}\n"
        #expect(try read(yaml).warnings.contains { $0.message.contains("in the clear") })
    }

    @Test("a command looks at the files of its own part only, and knows the keys of all")
    func parts() throws {
        let worker = """
            senders: [{sender_id: '1', host: a.example, secret_file: /nowhere/key}]
            handlers:
              - {name: seen, categories: ["*"], log: {}}
              - {name: hook, categories: [a], webhook: {url: 'https://a.example', secret_file: /nowhere/hook}}

            """
        let console = "console: {tokens: [{file: /nowhere/token, role: viewer}], hosts: [a, b]}\n"
        #expect(problems(worker, [.console]) == [])
        #expect(problems(console, .worker) == [])
        #expect(problems(worker, .worker).count == 2)
        #expect(problems(console, [.console]).count == 1)
        #expect(problems(worker + console, Set(ConfigurationPart.allCases)).count == 3)
        let mistakes = "senders: [{sender_id: '1', hots: a}]\nhandlers: [{name: a, categories: [b], log: {x: 1}}]\n"
        #expect(problems(mistakes, [.console]).count == 2)
        #expect(problems("console: {tokens: [{fil: a}], x: 1}\n", .worker).count == 2)
    }
}
