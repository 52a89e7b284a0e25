import Foundation
import IntegrationSupport
import Testing

/// What a test wants of a standard server; what it doesn't name is as `docs/servers.md` has it.
struct ServerOptions: Sendable {
    /// The SASL mechanisms that it offers, with passwords stored as that needs.
    var mechanisms: [String]?
    /// Whether it speaks nothing above TLS 1.2.
    var isTLS12 = false
    /// The file of the authority whose client certificates it takes; ejabberd's direct port alone.
    var clientAuthority: String?
    /// Whether it has stream management.
    var management = true
    /// How many stanzas of a session it keeps until they are acknowledged.
    var queue: Int?
    /// How many messages it stores for an account that is offline.
    var offline: Int?
    /// The greatest stanza of a client, in bytes.
    var stanza: Int?
    /// How many bytes a second it reads from a client.
    var rate: Int?
    /// Whether it archives messages (XEP-0313), at most 100 in a page.
    var archive = false
    /// Whether it stores messages for an account that is offline.
    var offlineStore = true
    /// Whether it serves PubSub nodes, at `pubsub.` and its domain; the peer makes them.
    var pubsub = false
    /// Whether its log has every stanza.
    var verbose = true
}

/// Where a server of a test is.
struct ServerSite: Sendable {
    /// The folder of all its files.
    var data: URL
    var ports: ServerPorts

    /// The certificate with its chain, and the private key: each in a file, and all in one.
    var chain: String { data.appending(path: "chain.pem").path }
    var key: String { data.appending(path: "key.pem").path }
    var both: String { data.appending(path: "both.pem").path }
    var log: URL { data.appending(path: "server.log") }
}

/// Ports of the loopback address.
struct ServerPorts: Sendable {
    /// For clients that begin with TLS.
    var direct: Int
    /// For clients that begin in the clear.
    var startTLS: Int
    /// For components, in the clear.
    var component: Int
    /// For components that begin with TLS; Prosody has no such port.
    var componentTLS: Int
    /// For the tests' own requests to ejabberd.
    var control: Int

    init() throws {
        let ports = try freePorts(5)
        (direct, startTLS, component, componentTLS, control) = (ports[0], ports[1], ports[2], ports[3], ports[4])
    }
}

/// What differs between the servers: how one is configured and started.
protocol ServerProgram: Sendable {
    static var kind: ServerKind { get }
    /// What must be installed.
    static var executable: String { get }
    /// Whom it runs as where the tests run as root: the user that its package has made.
    static var user: String { get }
    /// The configuration's name in the server's folder.
    static var fileName: String { get }
    /// Its configuration: that of `docs/servers.md`, in another place.
    static func configuration(_ site: ServerSite, _ options: ServerOptions) throws -> String
    /// Puts accounts where it looks for them, before it starts.
    static func prepare(_ site: ServerSite, accounts: [String]) throws
    static func command(_ site: ServerSite) -> [String]
    static func environment(_ site: ServerSite) -> [String: String]
    /// Whether it serves everything, judged by what it has logged since it was started.
    static func isReady(_ log: Substring) -> Bool
}

extension ServerProgram {
    typealias Options = ServerOptions
    static var domain: String { StandardServer.domain }
    static var worker: String { StandardServer.worker }
    static var peer: String { StandardServer.peer }
    static var stranger: String { StandardServer.stranger }
    static var secret: String { StandardServer.secret }

    /// Runs a test on a server of its own, with an account that plays the CCS.
    static func run(
        _ options: ServerOptions = ServerOptions(),
        _ body: (StandardServer, StandardSender, Database) async throws -> Void
    ) async throws { try await StandardServer.run(kind, options, body) }
}

enum Prosody: ServerProgram {
    static let kind = ServerKind.prosody
    static let executable = "/usr/bin/prosody"
    static let user = "prosody"
    static let fileName = "prosody.cfg.lua"

    static func configuration(_ site: ServerSite, _ options: ServerOptions) throws -> String {
        var text = try ConfigurationBlock(of: "-- /etc/prosody/prosody.cfg.lua")
        try text.replace("/run/prosody/prosody.pid", by: "\(site.data.path)/prosody.pid")
        try text.replace("/var/lib/prosody", by: site.data.path)
        try text.replace("info = \"/var/log/prosody/prosody.log\"", by: "\(options.level) = \"\(site.log.path)\"")
        try text.replace("/etc/prosody/certs/example.com.crt", by: site.chain)
        try text.replace("/etc/prosody/certs/example.com.key", by: site.key)
        try text.replace("192.0.2.10", by: "127.0.0.1")
        try text.replace("c2s_ports = { 5222 }", by: "c2s_ports = { \(site.ports.startTLS) }")
        try text.replace("direct_tls_ports = { 5223 }", by: "direct_tls_ports = { \(site.ports.direct) }")
        try text.replace("component_ports = { 5347 }", by: "component_ports = { \(site.ports.component) }")
        try text.replace("example.com", by: StandardServer.domain)
        try text.replace("CHANGE-ME", by: StandardServer.secret)
        if let mechanisms = options.mechanisms {
            let all: Set = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "DIGEST-MD5"]
            let disabled = all.subtracting(mechanisms).map { "\"\($0)\"" }.joined(separator: "; ")
            try text.replace(
                "authentication = \"internal_hashed\"",
                by: "authentication = \"internal_plain\"\ndisable_sasl_mechanisms = { \(disabled) }"
            )
        }
        if options.isTLS12 { try text.replace("local tls = {", by: "local tls = { protocol = \"tlsv1_2\";") }
        if options.archive {
            try text.replace(
                "\"smacks\" }",
                by: "\"smacks\"; \"mam\" }\ndefault_archive_policy = true\nmax_archive_query_results = 100"
            )
        }
        if !options.offlineStore {
            try text.replace("modules_disabled = { \"s2s\" }", by: "modules_disabled = { \"s2s\"; \"offline\" }")
        }
        if !options.management { try text.replace("; \"smacks\"", by: "") }
        if let queue = options.queue {
            try text.replace("smacks_max_queue_size = 50000", by: "smacks_max_queue_size = \(queue)")
        }
        if let offline = options.offline {
            try text.replace("storage_archive_item_limit = 40000", by: "storage_archive_item_limit = \(offline)")
        }
        if let stanza = options.stanza {
            try text.replace("c2s_stanza_size_limit = 256000", by: "c2s_stanza_size_limit = \(stanza)")
        }
        if let rate = options.rate {
            try text.replace(
                "modules_enabled = {",
                by: "limits = { c2s = { rate = \"\(rate)b/s\"; burst = \"1s\" } }\nmodules_enabled = { \"limits\";"
            )
        }
        guard options.pubsub else { return text.text }
        return text.text + "Component \"pubsub.\(domain)\" \"pubsub\"\n    admins = { \"\(peer)@\(domain)\" }\n"
    }

    static func prepare(_ site: ServerSite, accounts: [String]) throws {
        try FileManager.default.createDirectory(at: folder("accounts", site), withIntermediateDirectories: true)
        for account in accounts { _ = try write(account, StandardServer.secret, site) }
    }

    /// Where it keeps a kind of data.
    static func folder(_ kind: String, _ site: ServerSite) -> URL {
        site.data.appending(path: "\(StandardServer.domain.replacing(".", with: "%2e"))/\(kind)")
    }

    /// Writes an account's file; the password is hashed by the server when it is first used.
    static func write(_ account: String, _ password: String, _ site: ServerSite) throws -> URL {
        let file = folder("accounts", site).appending(path: "\(account).dat")
        try "return { [\"password\"] = \"\(password)\"; };\n".write(to: file, atomically: true, encoding: .utf8)
        return file
    }

    static func command(_ site: ServerSite) -> [String] {
        [executable, "--config", site.data.appending(path: fileName).path, "-F"]
    }

    static func environment(_ site: ServerSite) -> [String: String] { [:] }

    static func isReady(_ log: Substring) -> Bool {
        ["c2s", "c2s_direct_tls", "component"].allSatisfy { log.contains("Activated service '\($0)'") }
    }
}

enum Ejabberd: ServerProgram {
    static let kind = ServerKind.ejabberd
    static let executable = "/usr/sbin/ejabberdctl"
    static let user = "ejabberd"
    static let fileName = "ejabberd.yml"

    static func configuration(_ site: ServerSite, _ options: ServerOptions) throws -> String {
        var text = try ConfigurationBlock(of: "# /etc/ejabberd/ejabberd.yml")
        try text.replace("loglevel: info", by: "loglevel: \(options.level)")
        try text.replace("/etc/ejabberd/example.com.pem", by: site.both)
        try text.replace("192.0.2.10", by: "127.0.0.1")
        try text.replace("port: 5222\n", by: "port: \(site.ports.startTLS)\n")
        try text.replace("port: 5223\n", by: "port: \(site.ports.direct)\n")
        try text.replace("port: 5347\n", by: "port: \(site.ports.component)\n")
        try text.replace("port: 5348\n", by: "port: \(site.ports.componentTLS)\n")
        try text.replace("example.com", by: StandardServer.domain)
        try text.replace("CHANGE-ME", by: StandardServer.secret)
        if let mechanisms = options.mechanisms {
            let all: Set = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]
            let disabled = all.subtracting(mechanisms)
            let names = (["digest-md5", "x-oauth2"] + disabled.sorted()).map { "\"\($0)\"" }.joined(separator: ", ")
            try text.replace("[\"digest-md5\", \"x-oauth2\"]", by: "[\(names)]")
            try text.replace("auth_password_format: scram", by: "auth_password_format: plain")
        }
        if options.isTLS12 { try text.replace("\"no_tlsv1_1\"]", by: "\"no_tlsv1_1\", \"no_tlsv1_3\"]") }
        if let file = options.clientAuthority {
            try text.replace(
                "port: \(site.ports.direct)\n",
                by: "port: \(site.ports.direct)\n    tls_verify: true\n    cafile: \"\(file)\"\n"
            )
        }
        if !options.management {
            try text.replace("  mod_stream_mgmt: {resend_on_timeout: if_offline, max_ack_queue: 50000}\n", by: "")
        }
        if options.archive { try text.replace("  mod_ping: {}\n", by: "  mod_ping: {}\n  mod_mam: {default: always}\n") }
        if !options.offlineStore {
            try text.replace("  mod_offline: {access_max_user_messages: max_user_offline_messages}\n", by: "")
        }
        if let queue = options.queue { try text.replace("max_ack_queue: 50000", by: "max_ack_queue: \(queue)") }
        if let offline = options.offline {
            try text.replace("max_user_offline_messages: 40000", by: "max_user_offline_messages: \(offline)")
        }
        if let stanza = options.stanza {
            try text.replace("max_stanza_size: 256000", by: "max_stanza_size: \(stanza)")
        }
        if let rate = options.rate {
            try text.replace("shaper_rules:", by: "shaper:\n  slow: \(rate)\nshaper_rules:")
            try text.replace("shaper: none", by: "shaper: slow")
        }
        // What the tests themselves ask of it.
        try text.replace(
            "listen:\n",
            by: "listen:\n  - port: \(site.ports.control)\n    ip: \"127.0.0.1\"\n    module: ejabberd_http\n"
                + "    request_handlers: {/api: mod_http_api}\n"
        )
        let pubsub = options.pubsub ? "  mod_pubsub: {}\n" : ""
        try text.replace("modules:\n", by: "modules:\n  mod_http_api: {}\n  mod_admin_extra: {}\n\(pubsub)")
        return text.text + "api_permissions:\n  tests: {who: all, what: \"*\"}\n"
    }

    static func prepare(_ site: ServerSite, accounts: [String]) {}

    /// The program that `ejabberdctl foreground` starts, but as a node that no other can reach: no distribution, no epmd.
    static func command(_ site: ServerSite) -> [String] {
        ["/usr/bin/erl", "-noinput", "+K", "true", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]
            + ["-mnesia", "dir", "\"\(site.data.path)/mnesia\"", "-s", "ejabberd"]
    }

    static func environment(_ site: ServerSite) -> [String: String] {
        [
            "EJABBERD_CONFIG_PATH": site.data.appending(path: fileName).path, "EJABBERD_LOG_PATH": site.log.path,
            "ERL_LIBS": "/usr/lib/\(machine)-linux-gnu", "ERL_CRASH_DUMP": "/dev/null", "HOME": site.data.path,
        ]
    }

    private static var machine: String {
        #if arch(arm64)
        "aarch64"
        #else
        "x86_64"
        #endif
    }

    static func isReady(_ log: Substring) -> Bool { log.contains("is started in the node") }
}

extension ServerOptions {
    fileprivate var level: String { verbose ? "debug" : "info" }
}

/// A block of `docs/servers.md`, to be changed in named places.
struct ConfigurationBlock {
    private(set) var text: String

    /// The block whose first line is this.
    init(of line: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let file = root.deletingLastPathComponent().appending(path: "docs/servers.md")
        let parts = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n```")
        // Each second part is a block; it begins with the rest of the fence.
        let block = parts.lazy.compactMap { part -> Substring? in
            guard let end = part.firstIndex(of: "\n") else { return nil }
            return part[part.index(after: end)...]
        }
        .first { $0.hasPrefix(line + "\n") }
        text = String(try #require(block, "docs/servers.md has no block that begins with \(line)")) + "\n"
    }

    /// Replaces a text wherever it stands; it must stand somewhere.
    mutating func replace(_ old: String, by new: String) throws {
        try #require(text.contains(old), "the block in docs/servers.md has no \(old)")
        text.replace(old, with: new)
    }
}
