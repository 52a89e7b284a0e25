import CGlibc
import Glibc
import Handlers
import Postgres
import UpstreamConfiguration
import Vocabulary

extension ProbeSequence {
    /// The step about a handler: what it calls exists and may be called; nothing is called.
    static func handler(_ handler: HandlerConfiguration, _ session: DatabaseSession) -> ProbeSequence {
        let subject = "handler \(handler.name)"
        switch handler.kind {
        case .sql(let name):
            return ProbeSequence(subject, [Probe("function \(name)") { await function(name, session) }])
        case .webhook(let webhook):
            var steps = [Probe("webhook", isNeeded: true) { await host(of: webhook) }]
            if WebhookEndpoint(webhook.url)?.tlsPort != nil {
                steps.append(Probe("certificate") { await CertificateProbe.check(webhook) })
            }
            if let file = webhook.certificateFile {
                steps.append(
                    Probe("client certificate") {
                        CertificateProbe.check(
                            file: file,
                            fix: "renew webhook.certificate_file: it is read again by itself"
                        )
                    }
                )
            }
            return ProbeSequence(subject, steps)
        case .exec(let exec):
            return ProbeSequence(subject, [Probe("program") { program(exec.command.first ?? "") }])
        case .plugin, .log:
            return ProbeSequence(subject, [])
        }
    }

    private static func function(_ name: String, _ session: DatabaseSession) async -> Probe.Result {
        guard let function = SQLFunction(name) else { return .skipped }
        return await session.forHandler { connection in
            do throws(PostgresError) {
                try await FunctionProbe.run(function, on: connection)
                return .passed(detail: "it exists, and the role may call it")
            } catch {
                let role = await session.role
                switch error.failureClass {
                case .schema:
                    return .failed(
                        cause: error.description,
                        fix: "create it as \(name)(message upstream.messages), or correct sql.function",
                        status: .configuration
                    )
                case .permission:
                    let schema = name.split(separator: ".").first ?? ""
                    return .failed(
                        cause: error.description,
                        fix:
                            "GRANT USAGE ON SCHEMA \(schema) TO \"\(role)\"; GRANT EXECUTE ON FUNCTION \(name) TO \"\(role)\"",
                        status: .refused
                    )
                default:
                    let fix = DatabaseAdvice.fix(error, role: role)
                    return .failed(cause: error.description, fix: fix, status: ExitStatus(error))
                }
            }
        }
    }

    private static func host(of webhook: WebhookConfiguration) async -> Probe.Result {
        guard let endpoint = WebhookEndpoint(webhook.url) else { return .skipped }
        let policy = NetworkPolicy(allowed: webhook.allowedNetworks.compactMap(Network.init))
        switch await WebhookProbe.run(endpoint, policy: policy) {
        case .allowed(let addresses):
            let list = addresses.map(\.description).joined(separator: ", ")
            return .passed(detail: "its host is at \(list), where requests may go; none was sent")
        case .unresolved(let host, let reason):
            return .failed(
                cause: "\(host) does not resolve: \(reason)",
                fix: "correct webhook.url, or the name server of this machine (/etc/resolv.conf)",
                status: .unavailable
            )
        case .refused(let host, let address):
            return .failed(
                cause: "\(host) is at \(address), which is not a public address",
                fix: "if that is intended, add its network to webhook.allow_networks",
                status: .configuration
            )
        case .refusedPlain(let host, let address):
            return .failed(
                cause: "\(host) is at \(address), outside webhook.allow_networks, where only https is allowed",
                fix: "use https, or add its network to webhook.allow_networks",
                status: .configuration
            )
        }
    }

    /// Whether this process's user can start a program.
    static func program(_ path: String) -> Probe.Result {
        func failed(_ cause: String, _ fix: String) -> Probe.Result {
            .failed(cause: cause, fix: fix, status: .configuration)
        }
        var status = upstream_file()
        guard upstream_stat(path, &status) == 0 else {
            return failed("'\(path)': \(String(cString: strerror(errno)))", "install it, or correct exec.command")
        }
        guard status.mode & S_IFMT == S_IFREG else {
            return failed("'\(path)' is not a file", "name the program itself in exec.command")
        }
        guard access(path, X_OK) == 0 else {
            return failed(
                "'\(path)' can't be executed by this user (\(geteuid())): \(String(cString: strerror(errno)))",
                "chmod a+rx it, and let the worker's user enter its folders"
            )
        }
        if let interpreter = interpreter(of: path), access(interpreter, X_OK) != 0 {
            return failed(
                "'\(path)' is a script for '\(interpreter)': \(String(cString: strerror(errno)))",
                "install the interpreter, or correct the script's first line"
            )
        }
        return .passed(detail: "'\(path)' is there and executable by this user (\(geteuid()))")
    }

    /// The interpreter in a script's first line (execve(2)); nil for other programs.
    private static func interpreter(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 2, bytes[0] == UInt8(ascii: "#"), bytes[1] == UInt8(ascii: "!") else { return nil }
        let line = bytes[2..<count].prefix { $0 != UInt8(ascii: "\n") }
        let word = line.drop { $0 == 0x20 || $0 == 0x09 }.prefix { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }
        return word.isEmpty ? nil : String(decoding: word, as: UTF8.self)
    }
}
