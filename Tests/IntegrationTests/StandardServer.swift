import Foundation
import FoundationNetworking
import IntegrationSupport
import Synchronization
import TLSWire
import Testing

/// The standard XMPP servers that the tests start.
enum ServerKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case prosody = "Prosody"
    case ejabberd

    var testDescription: String { rawValue }

    var program: any ServerProgram.Type {
        switch self {
        case .prosody: Prosody.self
        case .ejabberd: Ejabberd.self
        }
    }
}

/// A Prosody or an ejabberd of our own: on the loopback address, in a folder of its own, as an unprivileged user.
final class StandardServer: Sendable {
    static let domain = "ccs.test"
    /// The component's address.
    static let component = "upstream.ccs.test"
    /// The account that the worker signs in with.
    static let worker = "1234567890"
    /// The account that has the CCS's part.
    static let peer = "devices"
    /// An account like any other, which may write to everybody.
    static let stranger = "eve"
    /// Every account's password, and the component's secret.
    static let secret = "FAKE-SECRET-never-in-a-log"

    let kind: ServerKind
    let ports: ServerPorts
    let authorityFile: String
    /// A folder for what a test writes.
    let scratch: TemporaryFolder
    private let site: ServerSite
    private let state: Mutex<State>

    private struct State {
        var process: ServerProcess?
        /// How much it had logged when it was started last, in bytes.
        var logged = 0
    }

    private init(kind: ServerKind, scratch: TemporaryFolder, site: ServerSite, authorityFile: String) {
        self.kind = kind
        self.scratch = scratch
        self.site = site
        ports = site.ports
        self.authorityFile = authorityFile
        state = Mutex(State())
    }

    /// Starts one and waits until it serves.
    static func start(_ kind: ServerKind, _ options: ServerOptions = ServerOptions()) async throws -> StandardServer {
        let program = kind.program
        try #require(
            FileManager.default.isExecutableFile(atPath: program.executable),
            "no \(program.executable): scripts/install-test-tools installs it"
        )
        let scratch = try TemporaryFolder()
        let data = scratch.url.appending(path: "data")
        try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
        let authority = try CertificateAuthority()
        let identity = try authority.issue(CertificateRequest(dnsNames: [domain, component]))
        let authorityFile = try scratch.write(authority.certificatePEM, as: "ca.pem")
        let site = ServerSite(data: data, ports: try ServerPorts())
        try Data(identity.chainPEM).write(to: URL(filePath: site.chain))
        try Data(identity.keyPEM).write(to: URL(filePath: site.key))
        try Data(identity.chainPEM + identity.keyPEM).write(to: URL(filePath: site.both))
        let file = data.appending(path: program.fileName)
        try program.configuration(site, options).write(to: file, atomically: true, encoding: .utf8)
        let accounts = [worker, peer, stranger]
        try program.prepare(site, accounts: accounts)
        if getuid() == 0 { try own(data, by: program.user) }

        let server = StandardServer(kind: kind, scratch: scratch, site: site, authorityFile: authorityFile)
        try await server.start()
        if kind == .ejabberd { for account in accounts { try await server.register(account) } }
        return server
    }

    /// Starts it again after its end, with the data that it left.
    func start() async throws {
        let program = kind.program
        var command = program.command(site)
        if getuid() == 0 {
            let user = program.user
            command = ["/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"] + command
        }
        let output = scratch.url.appending(path: "server.out")
        // Before: it may have logged all that is waited for once this task runs again.
        let logged = log.utf8.count
        let process = try ServerProcess(
            command,
            log: output.path,
            program.environment(site),
            removing: scratch.url
        )
        state.withLock { $0 = State(process: process, logged: logged) }
        try await waitUntil("\(kind.rawValue) serves") {
            guard process.isRunning else {
                let text = try String(contentsOf: output, encoding: .utf8)
                throw WaitedTooLong(description: "\(kind.rawValue) has ended: \(text.suffix(4000))")
            }
            let log = log
            return program.isReady(log[(log.utf8.index(log.startIndex, offsetBy: logged))...])
        }
    }

    private static func own(_ folder: URL, by user: String) throws {
        let all = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? []
        for item in [folder] + all.compactMap({ $0 as? URL }) {
            try FileManager.default.setAttributes([.ownerAccountName: user], ofItemAtPath: item.path)
        }
    }

    /// Makes an account, with the password of all.
    func register(_ account: String) async throws {
        switch kind {
        case .prosody:
            let file = try Prosody.write(account, StandardServer.secret, site)
            if getuid() == 0 { try Self.own(file, by: Prosody.user) }
        case .ejabberd:
            try await ask("register", ["user": account, "host": Self.domain, "password": Self.secret])
        }
    }

    /// Gives an account another password.
    func setPassword(_ password: String, of account: String) async throws {
        switch kind {
        case .prosody:
            let file = try Prosody.write(account, password, site)
            if getuid() == 0 { try Self.own(file, by: Prosody.user) }
        case .ejabberd:
            try await ask("change_password", ["user": account, "host": Self.domain, "newpass": password])
        }
    }

    /// Removes an account.
    func remove(_ account: String) async throws {
        switch kind {
        case .prosody:
            try FileManager.default.removeItem(at: Prosody.folder("accounts", site).appending(path: "\(account).dat"))
        case .ejabberd:
            try await ask("unregister", ["user": account, "host": Self.domain])
        }
    }

    /// Ends an account's session; Prosody is started again for that, and all others end too.
    func endSession(of account: String) async throws {
        switch kind {
        case .prosody:
            try await stop(SIGTERM)
            try await start()
        case .ejabberd:
            try await ask("kick_user", ["user": account, "host": Self.domain])
        }
    }

    /// How many messages it keeps for an account that is offline.
    func offlineMessages(_ account: String) async throws -> Int {
        switch kind {
        case .prosody:
            let text = try? String(
                contentsOf: Prosody.folder("offline", site).appending(path: "\(account).list"),
                encoding: .utf8
            )
            return text?.split(separator: "\n").count { $0.hasPrefix("item(") } ?? 0
        case .ejabberd:
            let answer = try await ask("get_offline_count", ["user": account, "host": Self.domain])
            let object = try JSONSerialization.jsonObject(with: Data(answer.utf8), options: .fragmentsAllowed)
            return try #require((object as? [String: Any])?["value"] as? Int ?? object as? Int, "\(answer)")
        }
    }

    /// Gives a command of ejabberd's administration.
    @discardableResult func ask(_ command: String, _ arguments: [String: String]) async throws -> String {
        let url = try #require(URL(string: "http://127.0.0.1:\(ports.control)/api/\(command)"))
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.httpBody = try JSONEncoder().encode(arguments)
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        let (data, response) = try await URLSession.shared.data(for: request)
        let text = String(decoding: data, as: UTF8.self)
        try #require((response as? HTTPURLResponse)?.statusCode == 200, "ejabberd refuses \(command): \(text)")
        return text
    }

    /// What it has logged so far.
    var log: String { (try? String(contentsOf: site.log, encoding: .utf8)) ?? "" }

    var isRunning: Bool { state.withLock { $0.process?.isRunning ?? false } }

    /// Its process.
    var processID: Int32 { state.withLock { $0.process?.processID ?? 0 } }

    /// A worker's configuration for it, as an account.
    func yaml(
        _ database: Database,
        account: String = StandardServer.worker,
        mode: String = "direct",
        window: Int = 100,
        keepalive: String = "{interval: 30s, timeout: 15s}",
        allowPlain: Bool = false,
        secret: String = StandardServer.secret,
        port: Int? = nil,
        resource: String = "upstream-worker"
    ) throws -> String {
        let secretFile = try scratch.write(secret.utf8, as: "password-\(UInt32.random(in: 0...UInt32.max))")
        return """
            database: {url: "\(database.url)"}
            senders:
              - sender_id: "\(account)"
                host: 127.0.0.1
                port: \(port ?? (mode == "direct" ? ports.direct : ports.startTLS))
                domain: \(Self.domain)
                window: \(window)
                dialect: xmpp
                resource: \(resource)
                allow_plain: \(allowPlain)
                secret_file: \(secretFile)
                tls: {mode: \(mode), ca_file: \(authorityFile)}
                trusted_from: ["\(Self.peer)@\(Self.domain)"]
                keepalive: \(keepalive)
            admin: {listen: "127.0.0.1:0"}
            log: {level: debug, format: json}

            """
    }

    /// Ends it, by default without letting it say goodbye to its peers, and waits.
    func stop(_ signal: Int32 = SIGKILL) async throws {
        try await state.withLock { $0.process }?.stop(signal)
    }

    /// Runs a test on a server of its own, with an account that plays the CCS.
    static func run(
        _ kind: ServerKind,
        _ options: ServerOptions = ServerOptions(),
        _ body: (StandardServer, StandardSender, Database) async throws -> Void
    ) async throws {
        let database = try await Database()
        let server = try await start(kind, options)
        do {
            let sender = try await StandardSender.start(server)
            try await body(server, sender, database)
        } catch {
            let tail = server.log.split(separator: "\n").suffix(40).joined(separator: "\n")
            FileHandle.standardError.write(Data("\(kind.rawValue)'s last words:\n\(tail)\n".utf8))
            try? await server.stop()
            throw error
        }
        try await server.stop()
    }
}
