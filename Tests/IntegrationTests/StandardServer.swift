import Foundation
import IntegrationSupport
import Synchronization
import TLSWire
import Testing

/// A Prosody of our own: on the loopback address, in a folder of its own, as an unprivileged user.
final class Prosody: Sendable {
    /// What a test wants of it.
    struct Options: Sendable {
        /// The SASL mechanisms that it offers.
        var mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]
        /// Whether it has stream management.
        var management = true
    }

    static let domain = "ccs.test"
    /// The account that the worker signs in with.
    static let worker = "1234567890"
    /// The account that has the CCS's part.
    static let peer = "devices"
    /// An account like any other, which may write to everybody.
    static let stranger = "eve"
    static let secret = "FAKE-SECRET-never-in-a-log"

    let directPort: Int
    let startTLSPort: Int
    let authorityFile: String
    private let folder: TemporaryFolder
    private let process: ServerProcess

    private init(folder: TemporaryFolder, process: ServerProcess, ports: [Int], authorityFile: String) {
        self.folder = folder
        self.process = process
        (directPort, startTLSPort) = (ports[0], ports[1])
        self.authorityFile = authorityFile
    }

    /// Starts one and waits until it listens.
    static func start(_ options: Options = Options()) async throws -> Prosody {
        let program = "/usr/bin/prosody"
        try #require(
            FileManager.default.isExecutableFile(atPath: program),
            "no \(program): scripts/install-test-tools installs it"
        )
        let folder = try TemporaryFolder()
        let data = folder.url.appending(path: "data")
        let accounts = data.appending(path: "ccs%2etest/accounts")
        try FileManager.default.createDirectory(at: accounts, withIntermediateDirectories: true)
        for account in [worker, peer, stranger] {
            let text = "return { [\"password\"] = \"\(secret)\"; };\n"
            try text.write(to: accounts.appending(path: "\(account).dat"), atomically: true, encoding: .utf8)
        }
        let authority = try CertificateAuthority()
        let identity = try authority.issue(CertificateRequest(dnsNames: [domain]))
        let authorityFile = try folder.write(authority.certificatePEM, as: "ca.pem")
        try Data(identity.chainPEM).write(to: data.appending(path: "chain.pem"))
        try Data(identity.keyPEM).write(to: data.appending(path: "key.pem"))
        let ports = try freePorts(2)
        let configuration = configuration(options, data: data.path, ports: ports)
        let file = data.appending(path: "prosody.cfg.lua")
        try configuration.write(to: file, atomically: true, encoding: .utf8)

        var command = [program, "--config", file.path, "-F"]
        if getuid() == 0 {
            // Prosody refuses root; its package makes a user for it.
            try own(data, by: "prosody")
            command = ["/usr/bin/setpriv", "--reuid=prosody", "--regid=prosody", "--clear-groups"] + command
        }
        let process = try ServerProcess(command, log: folder.url.appending(path: "prosody.out").path)
        let server = Prosody(folder: folder, process: process, ports: ports, authorityFile: authorityFile)
        try await waitUntil("Prosody listens") {
            guard process.isRunning else { throw WaitedTooLong(description: "Prosody has ended: \(server.output)") }
            let log = server.log
            return log.contains("Activated service 'c2s'") && log.contains("Activated service 'c2s_direct_tls'")
        }
        return server
    }

    private static func configuration(_ options: Options, data: String, ports: [Int]) -> String {
        let all: Set = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "DIGEST-MD5"]
        let disabled = all.subtracting(options.mechanisms).map { "\"\($0)\"" }.joined(separator: "; ")
        let tls = "{ key = \"\(data)/key.pem\"; certificate = \"\(data)/chain.pem\" }"
        return """
            data_path = "\(data)"
            pidfile = "\(data)/prosody.pid"
            log = { debug = "\(data)/prosody.log" }
            ssl = \(tls)
            c2s_direct_tls_ssl = \(tls)
            interfaces = { "127.0.0.1" }
            c2s_direct_tls_ports = { \(ports[0]) }
            c2s_ports = { \(ports[1]) }
            modules_enabled = { "saslauth"; "tls"; "disco"; "ping"; "roster"\(options.management ? "; \"smacks\"" : "") }
            modules_disabled = { "s2s" }
            authentication = "internal_plain"
            c2s_require_encryption = true
            disable_sasl_mechanisms = { \(disabled) }
            smacks_max_queue_size = 5000
            VirtualHost "\(domain)"

            """
    }

    private static func own(_ folder: URL, by user: String) throws {
        let all = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? []
        for item in [folder] + all.compactMap({ $0 as? URL }) {
            try FileManager.default.setAttributes([.ownerAccountName: user], ofItemAtPath: item.path)
        }
    }

    /// Ports of the loopback address that nobody uses at the moment.
    private static func freePorts(_ count: Int) throws -> [Int] {
        var sockets: [Int32] = []
        defer { for socket in sockets { close(socket) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            sockets.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
                }
            }
            try #require(result, "no free port")
            return Int(UInt16(bigEndian: address.sin_port))
        }
    }

    /// What it has logged so far.
    var log: String {
        (try? String(contentsOf: folder.url.appending(path: "data/prosody.log"), encoding: .utf8)) ?? ""
    }

    private var output: String {
        (try? String(contentsOf: folder.url.appending(path: "prosody.out"), encoding: .utf8)) ?? ""
    }

    /// A worker's configuration for it.
    func yaml(
        _ database: Database,
        mode: String = "direct",
        window: Int = 100,
        keepalive: String = "{interval: 30s, timeout: 15s}",
        secret: String = Prosody.secret
    ) throws -> String {
        let secretFile = try folder.write(secret.utf8, as: "password-\(UInt32.random(in: 0...UInt32.max))")
        return """
            database: {url: "\(database.url)"}
            senders:
              - sender_id: "\(Prosody.worker)"
                host: 127.0.0.1
                port: \(mode == "direct" ? directPort : startTLSPort)
                domain: \(Prosody.domain)
                window: \(window)
                dialect: xmpp
                secret_file: \(secretFile)
                tls: {mode: \(mode), ca_file: \(authorityFile)}
                trusted_from: ["\(Prosody.peer)@\(Prosody.domain)"]
                keepalive: \(keepalive)
            admin: {listen: "127.0.0.1:0"}
            log: {level: debug, format: json}

            """
    }

    /// A folder for what a test writes.
    var scratch: TemporaryFolder { folder }

    func stop() async throws { try await process.stop() }

    /// Runs a test on a Prosody of its own, with an account that plays the CCS.
    static func run(
        _ options: Options = Options(),
        _ body: (Prosody, StandardSender, Database) async throws -> Void
    ) async throws {
        let database = try await Database()
        let server = try await Prosody.start(options)
        do {
            let sender = try await StandardSender.start(server)
            try await body(server, sender, database)
        } catch {
            let tail = server.log.split(separator: "\n").suffix(40).joined(separator: "\n")
            FileHandle.standardError.write(Data("Prosody's last words:\n\(tail)\n".utf8))
            try? await server.stop()
            throw error
        }
        try await server.stop()
    }
}

/// `Tests/Tools/xmpp_sender.py`: an account of the server that sends upstream messages and hears their acks.
final class StandardSender: Sendable {
    private let process: ServerProcess
    private let log: URL

    private init(process: ServerProcess, log: URL) {
        self.process = process
        self.log = log
    }

    /// Starts it and waits until it is signed in.
    static func start(_ server: Prosody, as account: String = Prosody.peer) async throws -> StandardSender {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let python =
            ProcessInfo.processInfo.environment["UPSTREAM_TEST_PYTHON"]
            ?? tests.deletingLastPathComponent().appending(path: ".build/test-tools/bin/python3").path
        try #require(
            FileManager.default.isExecutableFile(atPath: python),
            "no \(python); make it with scripts/install-test-tools"
        )
        let log = server.scratch.url.appending(path: "sender-\(UInt32.random(in: 0...UInt32.max)).out")
        let process = try ServerProcess(
            [
                python, tests.appending(path: "Tools/xmpp_sender.py").path, String(server.directPort),
                server.authorityFile, "\(account)@\(Prosody.domain)", "\(Prosody.worker)@\(Prosody.domain)",
            ],
            log: log.path
        )
        let sender = StandardSender(process: process, log: log)
        try process.write("\(Prosody.secret)\n")
        try await waitUntil("the sender is signed in") {
            guard process.isRunning else { throw WaitedTooLong(description: "the sender has ended: \(sender.text)") }
            return sender.events("ready").count == 1
        }
        return sender
    }

    /// Sends messages with these ids.
    func send(_ ids: some Sequence<String>) throws {
        for id in ids {
            try process.write(
                #"{"message_id":"\#(id)","from":"FAKE-token","category":"com.example","data":{"n":"\#(id)"}}"# + "\n"
            )
        }
    }

    /// Sends a chat message with this content, as XML.
    func send(content: String) throws {
        let stanza = "<message to='\(Prosody.worker)@\(Prosody.domain)' type='chat'><body>x</body>\(content)</message>"
        try process.write(String(decoding: JSONEncoder().encode(["raw": stanza]), as: UTF8.self) + "\n")
    }

    private var text: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    private func events(_ kind: String) -> [String] {
        text.split(separator: "\n").compactMap { line in
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            return object?["event"] as? String == kind ? object?["id"] as? String ?? "" : nil
        }
    }

    /// The ids of the acks so far, in their order.
    var acks: [String] { events("ack") }

    /// The ids of what came back as an error.
    var errors: [String] { events("error") }
}

/// A program that a test runs beside itself; it ends with its owner.
final class ServerProcess: @unchecked Sendable {
    // Foundation's Process may be asked from any thread; it is started once, here.
    private let process = Process()
    private let input = Pipe()

    init(_ command: [String], log: String) throws {
        try Data().write(to: URL(filePath: log))
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"]
        process.standardInput = input
        let output = try FileHandle(forWritingTo: URL(filePath: log))
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    var isRunning: Bool { process.isRunning }

    func write(_ text: String) throws { try input.fileHandleForWriting.write(contentsOf: Data(text.utf8)) }

    /// Ends it, without letting it say goodbye to its peers, and waits.
    func stop() async throws {
        kill(process.processIdentifier, SIGKILL)
        try await waitUntil("\(process.executableURL?.lastPathComponent ?? "") ends") { !process.isRunning }
    }
}
