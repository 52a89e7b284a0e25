import ArgumentParser
import CGlibc
import ConfigurationKeys
import Glibc
import Querying
import UpstreamConfiguration
import Vocabulary

struct ConfigInit: ProgramCommand {
    static let manual = """
        init: Writes a commented configuration file: asks on a terminal, or takes flags.
          sudo upstream-worker config init
          upstream-worker config init worker.yaml --sender-id 1234567890 \\
            --host fcm-xmpp.googleapis.com --domain fcm.googleapis.com \\
            --secret-file /etc/upstream-worker/server-key
          upstream-worker config init - --dialect xmpp --sender-id collector \\
            --domain example.org --secret-file server-key

        Every key stands in the file, those that were not given as comments with their defaults. The file gets \
        mode 640, and where there is a group upstream-worker and this is root, that group. An existing file is \
        left alone without --force. A secret is only named: write it into its file yourself.
        """

    @Argument(help: "The file; - for stdout. Default: $UPSTREAM_CONFIG, else \(ConfigurationLoader.defaultPath).")
    var file: String?
    @Option(help: "The database, a libpq URI without a password.") var databaseURL: String?
    @Option(help: "The account's id: the local part of its address.") var senderID: String?
    @Option(help: "What the peer speaks: ccs, xmpp or component.") var dialect: String?
    @Option(help: "The server to connect to; with xmpp it may be left to the domain's DNS.") var host: String?
    @Option(help: "Its port.") var port: String?
    @Option(help: "The XMPP domain, where it is not the host.") var domain: String?
    @Option(help: "The file with the server key, or the name of a systemd credential.") var secretFile: String?
    @Flag(help: "Replace an existing file.") var force = false

    /// A URL by which the worker's own user, whose name is the role's, connects without a password.
    private static let usualURL = "postgresql:///upstream?host=/run/postgresql"

    /// A value to ask for, unless a flag gives it.
    private struct Question {
        let flag: String
        let key: String
        let given: String?
        let text: String
        let standard: String?
        let isOptional: Bool

        init(
            _ flag: String,
            _ key: String,
            _ given: String?,
            _ text: String,
            standard: String? = nil,
            isOptional: Bool = false
        ) {
            (self.flag, self.key, self.given, self.text) = (flag, key, given, text)
            (self.standard, self.isOptional) = (standard, isOptional)
        }
    }

    private static let secretKey = "senders.N.secret_file"

    private var questions: [Question] {
        let peer = "What the server speaks: ccs, xmpp or component"
        let domainText = "XMPP domain (empty: the server's name)"
        let secret = "File with the server key, or name of a systemd credential"
        return [
            Question("--database-url", "database.url", databaseURL, "Database (libpq URI)", standard: Self.usualURL),
            Question("--dialect", "senders.N.dialect", dialect, peer, standard: "ccs"),
            Question("--sender-id", "senders.N.sender_id", senderID, "Sender id (the account's local part)"),
            Question("--host", "senders.N.host", host, "Server to connect to"),
            Question("--domain", "senders.N.domain", domain, domainText, isOptional: true),
            Question("--secret-file", Self.secretKey, secretFile, secret, standard: "server-key"),
        ]
    }

    func run(in context: CommandContext) async throws {
        let path = file ?? context.environment["UPSTREAM_CONFIG"] ?? ConfigurationLoader.defaultPath
        let target = ConfigurationTarget(path: path, replaces: force)
        // Before anything is asked.
        try target.check()
        let template = try template(context)
        // What `check` would refuse, except a missing secret file, which may come later.
        let problems = Self.problems(template, path, context)
        let secrets = problems.filter { $0.key.hasSuffix("secret_file") && $0.message != "is required" }
        let others = problems.filter { !secrets.contains($0) }
        guard others.isEmpty else {
            let text = others.map { "\($0.key): \($0.message)" }.joined(separator: "\n")
            throw CommandFailure(.usage, text + "\nnothing was written")
        }
        guard path != "-" else { return context.console.data(String(template.text.dropLast())) }
        try target.write(template.text)
        context.console.message("wrote \(path), mode 640")
        for secret in secrets { context.console.message("note: \(secret.key): \(secret.message)") }
        let next = path == ConfigurationLoader.defaultPath ? "" : " --config \(path)"
        context.console.message("next: \(context.suggestion("check\(next) --connect"))")
    }

    private func template(_ context: CommandContext) throws -> ConfigurationTemplate {
        var values: [String: String] = [:]
        values["senders.N.port"] = port
        for question in questions { values[question.key] = question.given }
        let isAsking = context.console.input.isTerminal && context.console.errors.isTerminal
        var missing: [String] = []
        for question in questions where values[question.key] == nil {
            // Skipped if the default applies, or another answer makes it needless.
            if question.key == "senders.N.dialect", !isAsking { continue }
            let isFound = values["senders.N.dialect"] == "xmpp"
            if question.key == "senders.N.host", isFound, !isAsking, values["senders.N.domain"] != nil { continue }
            guard isAsking else {
                if let standard = question.standard {
                    values[question.key] = standard
                } else if !question.isOptional {
                    missing.append(question.flag)
                }
                continue
            }
            let isOptional = question.isOptional || question.key == "senders.N.host" && isFound
            values[question.key] = try ask(question, isOptional: isOptional, values, context)
        }
        guard missing.isEmpty else {
            let list = missing.joined(separator: ", ")
            throw CommandFailure(.usage, "give \(list): there is no terminal to ask on")
        }
        return ConfigurationTemplate(values)
    }

    private func ask(
        _ question: Question,
        isOptional: Bool,
        _ values: [String: String],
        _ context: CommandContext
    ) throws -> String? {
        let console = context.console
        while true {
            guard let line = console.ask(question.text, standard: question.standard) else {
                throw CommandFailure(.negative, "nothing was written")
            }
            let answer = line.isEmpty ? question.standard ?? "" : line
            guard !answer.isEmpty else {
                if isOptional { return nil }
                console.message("it is needed")
                continue
            }
            var tried = values
            tried[question.key] = answer
            let problems = Self.problems(ConfigurationTemplate(tried), "-", context).filter {
                $0.key == question.key.replacing(".N.", with: ".0.") && $0.message != "is required"
            }
            guard let problem = problems.first, question.key != Self.secretKey else { return answer }
            console.message(problem.message)
        }
    }

    /// Problems of a file with this text, as `check` would find them.
    private static func problems(
        _ template: ConfigurationTemplate,
        _ path: String,
        _ context: CommandContext
    ) -> [ConfigurationProblem] {
        // Variables would override the file, which alone is checked here.
        let environment = context.environment.filter { $0.key == "CREDENTIALS_DIRECTORY" }
        do throws(ConfigurationError) {
            _ = try ConfigurationLoader(environment: environment).read(
                yaml: template.text,
                path: path,
                parts: Set(ConfigurationPart.allCases)
            )
            return []
        } catch {
            return error.problems
        }
    }
}

/// The file that `config init` writes: atomically, and never over another unless told.
struct ConfigurationTarget {
    let path: String
    let replaces: Bool

    /// Checks, before anything is asked, that it can be written.
    func check() throws(CommandFailure) {
        guard path != "-" else { return }
        var status = upstream_file()
        if upstream_stat(path, &status) == 0 {
            guard replaces else { throw Self.exists(path) }
            guard status.mode & S_IFMT == S_IFREG else {
                throw CommandFailure(.negative, "'\(path)' is not a file: nothing was written")
            }
        }
    }

    /// Writes it with mode 640, owned by root and the worker's group.
    func write(_ text: String) throws(CommandFailure) {
        let temporary = "\(path).\(getpid()).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure() }
        defer { unlink(temporary) }
        do throws(ExportError) {
            try ExportFile(stream: descriptor).write(Array(text.utf8))
        } catch {
            throw closing(descriptor)
        }
        // The group of the Debian package's system user; elsewhere the file stays the caller's.
        if geteuid() == 0, let group = getgrnam("upstream-worker") {
            guard fchown(descriptor, 0, group.pointee.gr_gid) == 0 else { throw closing(descriptor) }
        }
        guard fchmod(descriptor, 0o640) == 0, fsync(descriptor) == 0 else { throw closing(descriptor) }
        close(descriptor)
        // Unlike a rename, a link fails if the file exists.
        guard (replaces ? rename(temporary, path) : link(temporary, path)) == 0 else { throw failure() }
    }

    private func closing(_ descriptor: Int32) -> CommandFailure {
        let failure = failure()
        close(descriptor)
        return failure
    }

    private func failure() -> CommandFailure {
        errno == EEXIST
            ? Self.exists(path)
            : CommandFailure(.negative, "can't write '\(path)': \(String(cString: strerror(errno)))")
    }

    private static func exists(_ path: String) -> CommandFailure {
        CommandFailure(.negative, "'\(path)' exists: replace it with --force, or name another file")
    }
}
