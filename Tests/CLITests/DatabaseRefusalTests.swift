import DatabaseSupport
import Foundation
import IntegrationSupport
import LocalDatabase
import Postgres
import Testing
import Vocabulary
import Worker

/// A server that refuses in each of its ways, and what commands and `check --connect` make of it.
@Suite("a database that refuses", .serialized)
struct DatabaseRefusalTests {
    /// One server for the suite: its pg_hba.conf has a line for each way to sign in.
    private static let server = Task {
        let cluster = LocalCluster.forTests("refusal")
        let database = try await TestDatabase(on: cluster)
        try await database.script(try DeployedRoles.script())
        try await database.script(
            """
            CREATE ROLE pw LOGIN PASSWORD 'FAKE-right' IN ROLE upstream_worker; CREATE ROLE peered LOGIN;
            CREATE ROLE weak LOGIN; CREATE ROLE reads LOGIN IN ROLE upstream_reader; CREATE ROLE unlisted LOGIN;
            CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO upstream_worker;
            CREATE FUNCTION app.open(message upstream.messages) RETURNS void LANGUAGE sql AS '';
            CREATE FUNCTION app.closed(message upstream.messages) RETURNS void LANGUAGE sql AS '';
            REVOKE EXECUTE ON FUNCTION app.closed FROM PUBLIC;
            \(others)
            """
        )
        let lines = """
            local all upstream,weak,reads,roach,deaf,citus,"upstream-worker" trust
            local all pw scram-sha-256
            local all peered,"\(NSUserName())" peer
            """
        let file = cluster.folder.appending(path: "data/pg_hba.conf")
        try lines.appending("\n").write(to: file, atomically: false, encoding: .utf8)
        try await database.script("SELECT pg_reload_conf()")
        // The view shows the file, not what the server has read of it.
        let unlisted = try PostgresSettings(
            url: database.url.replacingOccurrences(of: "user=upstream", with: "user=unlisted")
        )
        try await waitUntil("the server reads pg_hba.conf") {
            do {
                try await PostgresConnection.open(unlisted).close()
                return false
            } catch {
                return true
            }
        }
        return (cluster, database)
    }

    /// Roles that find other engines' answers before PostgreSQL's.
    private static let others = """
        CREATE SCHEMA roach; CREATE SCHEMA deaf; CREATE SCHEMA citus;
        CREATE FUNCTION roach.version() RETURNS text LANGUAGE sql
        AS $$SELECT text 'CockroachDB CCL v23.2.4 (x86_64-pc-linux-gnu, built 2024/04/08 21:51:36, go1.21.8)'$$;
        CREATE FUNCTION deaf.version() RETURNS text LANGUAGE sql AS 'SELECT roach.version()';
        CREATE FUNCTION deaf.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql
        AS 'BEGIN RAISE undefined_function; END';
        CREATE TABLE citus.pg_extension AS SELECT text 'citus' AS extname, text '12.1' AS extversion;
        CREATE TABLE citus.pg_dist_partition AS
        SELECT c.oid::regclass AS logicalrel, 'h'::"char" AS partmethod, 's'::"char" AS repmodel
        FROM pg_class AS c WHERE c.relname IN ('deliveries', 'handlers') AND relnamespace = 'upstream'::regnamespace;
        CREATE ROLE roach LOGIN; ALTER ROLE roach SET search_path = roach, pg_catalog;
        CREATE ROLE deaf LOGIN; ALTER ROLE deaf SET search_path = deaf, pg_catalog;
        CREATE ROLE citus LOGIN IN ROLE upstream_worker; ALTER ROLE citus SET search_path = citus, pg_catalog;
        GRANT USAGE ON SCHEMA roach, deaf, citus TO PUBLIC;
        GRANT SELECT ON ALL TABLES IN SCHEMA citus TO PUBLIC;
        """

    /// A way to be refused.
    struct Case: Sendable, CustomTestStringConvertible {
        var user: String
        var database: String?
        var password: String?
        var status: Int32
        var fix: String

        var testDescription: String { "\(user) \(database ?? "")" }
    }

    private func configuration(_ folder: TemporaryFolder, _ wanted: Case, _ rest: String = "") async throws -> String {
        let (cluster, database) = try await Self.server.value
        let name = try await database.text("SELECT current_database()") ?? ""
        let passfile = try folder.write((wanted.password.map { "*:*:*:*:\($0)\n" } ?? "").utf8, as: "pgpass")
        let url =
            "host=\(cluster.socketFolder.path) user=\(wanted.user) dbname=\(wanted.database ?? name) passfile=\(passfile)"
        let secret = try folder.write("FAKE-key\n".utf8, as: "key")
        return try folder.write(
            """
            database: {url: "\(url)"}
            senders: [{sender_id: "1", host: 127.0.0.1, port: 1, secret_file: \(secret)}]
            \(rest)
            """.utf8,
            as: "worker.yaml"
        )
    }

    @Test(
        "each refusal has its own fix and exit code, in a command and in check --connect",
        arguments: [
            Case(user: "pw", status: 77, fix: "the server asks for a password: put it into a file of mode 600"),
            Case(
                user: "pw",
                password: "FAKE-wrong",
                status: 77,
                fix: "the password is wrong, or there is no such role"
            ),
            Case(user: "peered", status: 77, fix: "as that user (sudo -u upstream-worker …)"),
            Case(user: "unlisted", status: 77, fix: "pg_hba.conf has no line for this host, role and database"),
            Case(
                user: "weak",
                database: "nowhere",
                status: 69,
                fix: "create the database (createdb --owner=upstream_owner"
            ),
        ]
    )
    func refused(_ wanted: Case) async throws {
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, wanted)
        for command in [["stats"], ["migrate", "status"], ["check", "--connect"]] {
            let run = try await FakeTerminal(columns: nil).run(command + ["--config", path])
            #expect(run.status == wanted.status, "\(command): \(run)")
            let text = command[0] == "check" ? run.output : run.errors
            #expect(text.contains("fix: \(wanted.fix)") || text.contains(wanted.fix), "\(command): \(text)")
            #expect(!(run.output + run.errors).contains("FAKE-wrong"))
            if command[0] == "check" { #expect(run.output.contains("FAILED  database: connect: ")) }
        }
    }

    @Test(
        "an engine that is not PostgreSQL is named, also if it does not know our questions",
        arguments: ["roach", "deaf"]
    )
    func engine(_ user: String) async throws {
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, Case(user: user, status: 78, fix: ""))
        let reason = "the server is CockroachDB and not PostgreSQL: its advisory locks do nothing"
        for command in [["stats"], ["messages", "list"], ["migrate", "status"], ["check", "--connect"]] {
            let run = try await FakeTerminal(columns: nil).run(command + ["--config", path])
            #expect(run.status == 78 && (run.output + run.errors).contains(reason), "\(command): \(run)")
        }
        let check = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        #expect(check.output.contains("FAILED  database: connect: the server is CockroachDB"), "\(check)")
        #expect(check.output.contains("fix: use PostgreSQL 14 or later") && check.output.contains("docs/databases.md"))
    }

    @Test("Citus is refused once it spreads our tables over servers")
    func citus() async throws {
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, Case(user: "citus", status: 78, fix: ""))
        let run = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        let line =
            "FAILED  database: server: Citus 12.1 spreads 2 tables of the schema upstream over servers, deliveries"
        #expect(run.status == 78 && run.output.contains(line), "\(run)")
    }

    @Test("what a role may not do says as which role it can be done")
    func lackingRight() {
        let error = PostgresError(.permission, "permission denied for table audit", sqlState: "42501")
        let hint = DatabaseAdvice.hint(error) ?? ""
        #expect(hint.hasPrefix("fix: ") && hint.contains("sudo -u upstream-console") && hint.contains("roles.sql"))
    }

    @Test("a role that does not exist, of the name of who asks, is one to be made")
    func missingRole() async throws {
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, Case(user: NSUserName(), status: 77, fix: ""))
        let run = try await FakeTerminal(columns: nil).run(["stats", "--config", path])
        #expect(run.status == 77 && run.errors.contains("fix: create the role (psql -f deploy/roles.sql"), "\(run)")
    }

    @Test("a URL that libpq can't parse is 78, and its own key is named", arguments: ["url", "read_url"])
    func unparsable(_ key: String) async throws {
        let folder = try TemporaryFolder()
        let wrong = "postgresql://h/x?nonsense=1"
        let keys = key == "url" ? "url: '\(wrong)'" : "url: 'host=/nowhere', read_url: '\(wrong)'"
        let path = try folder.write("database: {\(keys)}\n".utf8, as: "wrong.yaml")
        let run = try await FakeTerminal(columns: nil).run(["messages", "list", "--config", path])
        let start = "database.\(key) is neither a libpq URI nor a key=value string"
        #expect(run.status == 78 && run.errors.contains(start), "\(run)")
        #expect(run.errors.contains("fix: write database.\(key) as"), "\(run)")
        #expect(!run.errors.contains(key == "url" ? "database.read_url" : "database.url"), "\(run)")
    }

    @Test("a server that is down is 69; the right password lets in")
    func downAndUp() async throws {
        let folder = try TemporaryFolder()
        let down = try folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "down.yaml")
        let run = try await FakeTerminal(columns: nil).run(["stats", "--config", down])
        #expect(run.status == 69 && run.errors.contains("check that the server runs"), "\(run)")
        let path = try await configuration(folder, Case(user: "pw", password: "FAKE-right", status: 0, fix: ""))
        let stats = try await FakeTerminal(columns: nil).run(["stats", "--config", path])
        #expect(stats.status == 0, "\(stats)")
    }

    @Test(
        "a role without the rights is 77, and what it lacks is named",
        arguments: [
            ("weak", "schema: "), ("reads", "rights: the role reads lacks USAGE ON upstream.lease_tokens, INSERT ON"),
        ]
    )
    func rights(_ user: String, _ line: String) async throws {
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, Case(user: user, status: 77, fix: ""))
        let run = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        #expect(run.status == 77 && run.output.contains("FAILED  database: \(line)"), "\(run)")
        #expect(run.output.contains("GRANT upstream_worker TO \"\(user)\""))
        #expect(run.output.contains("-       database: writes: not tried"))
    }

    @Test("with the worker's login role everything about the database and the handlers is tried, and nothing is left")
    func allRight() async throws {
        let (_, database) = try await Self.server.value
        let folder = try TemporaryFolder()
        let program = try folder.write("#!/nowhere/python\n".utf8, as: "script")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
        let plain = try folder.write("x".utf8, as: "plain")
        let key = try folder.write("whsec_RkFLRS1rZXktb2YtdGVzdHMtMzItYnl0ZXM=\n".utf8, as: "whsec")
        func webhook(_ name: String, _ url: String) -> String {
            "  - {name: \(name), categories: ['*'], webhook: {url: '\(url)', secret_file: \(key)}}"
        }
        func exec(_ name: String, _ path: String) -> String {
            "  - {name: \(name), categories: ['*'], exec: {command: ['\(path)']}}"
        }
        func sql(_ name: String, _ function: String) -> String {
            "  - {name: \(name), categories: ['*'], sql: {function: \(function)}}"
        }
        let handlers = [
            "handlers:", sql("open", "app.open"), sql("closed", "app.closed"), sql("none", "app.none"),
            webhook("private", "https://127.0.0.1/x"), webhook("unknown", "https://upstream.invalid/x"),
            exec("there", "/bin/true"), exec("gone", "/nowhere/x"), exec("shut", plain), exec("script", program),
        ]
        let wanted = Case(user: "upstream-worker", status: 0, fix: "")
        let path = try await configuration(folder, wanted, handlers.joined(separator: "\n"))
        let run = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        for step in [
            "database: connect: connected to ", "database: server: PostgreSQL ", "database: clock: the same",
            "database: connections: up to 40 sessions are needed (2 for database.writers, 12 for handlers",
            "database: schema: ", "database: rights: ", "database: writes: ",
            "database: partitions: ", "handler open: function app.open: ", "handler there: program: '/bin/true'",
        ] {
            #expect(run.output.contains("ok      \(step)"), "\(step)\n\(run.output)")
        }
        // The tests' servers are not meant to survive a crash.
        #expect(run.output.contains("warning database: what an ack is worth: fsync is off"), "\(run.output)")
        for (line, fix) in [
            (
                "handler closed: function app.closed: permission denied",
                "GRANT EXECUTE ON FUNCTION app.closed TO \"upstream-worker\""
            ),
            ("handler none: function app.none: function app.none", "create it as app.none(message upstream.messages)"),
            ("handler private: webhook: 127.0.0.1 is at 127.0.0.1", "add its network to webhook.allow_networks"),
            ("handler unknown: webhook: upstream.invalid does not resolve", "correct webhook.url"),
            ("handler gone: program: '/nowhere/x': No such file", "install it"),
            ("handler shut: program: '\(plain)' can't be executed", "chmod a+rx"),
            ("handler script: program: '\(program)' is a script for '/nowhere/python'", "install the interpreter"),
            ("sender 1: TCP, TLS, SASL, bind: ", "check that 127.0.0.1 port 1"),
        ] {
            #expect(run.output.contains("FAILED  \(line)") && run.output.contains(fix), "\(line)\n\(run.output)")
        }
        // The first that failed.
        #expect(run.status == 77)
        #expect(try await database.integer("SELECT count(*) FROM upstream.message_ids") == 0)
        #expect(try await database.integer("SELECT count(*) FROM upstream.handlers") == 0)
    }

    @Test("a limit on sessions that is too low for the worker is found")
    func sessions() async throws {
        let (_, database) = try await Self.server.value
        try await database.script("ALTER ROLE \"upstream-worker\" CONNECTION LIMIT 3")
        let folder = try TemporaryFolder()
        let path = try await configuration(folder, Case(user: "upstream-worker", status: 78, fix: ""))
        let run = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        try await database.script("ALTER ROLE \"upstream-worker\" CONNECTION LIMIT -1")
        #expect(run.status == 78 && run.output.contains("the role upstream-worker is limited to 3"), "\(run)")
        #expect(run.output.contains("ok      database: writes: "))
    }

    @Test("every command that needs the database alone runs in a shell with the unit's own configuration")
    func unitConfiguration() async throws {
        let (cluster, database) = try await Self.server.value
        let name = try await database.text("SELECT current_database()") ?? ""
        let folder = try TemporaryFolder()
        let path = try folder.write(
            """
            database: {url: "host=\(cluster.socketFolder.path) user=upstream dbname=\(name)"}
            senders: [{sender_id: "1", host: h.example.com, secret_file: server-key, tls: {ca_file: /nowhere/ca.pem}}]
            handlers:
              - {name: hook, categories: ["*"], webhook: {url: "https://h.example.com/", secret_file: hook-key}}
            console: {tokens: [{file: console-operator, role: operator}]}
            """.utf8,
            as: "worker.yaml"
        )
        let token = try folder.write("FAKE-token\n".utf8, as: "token")
        for (command, status) in [
            (["messages", "list"], 0), (["messages", "export"], 0), (["messages", "show", "x"], nil), (["stats"], 0),
            (["handlers", "list"], 0), (["handlers", "pause", "hook"], nil), (["dead", "list"], 0),
            (["dead", "groups"], 0), (["quarantine", "list"], 0), (["conflicts", "list"], 0),
            (["partitions", "plan"], 0), (["partitions", "run"], 75), (["partitions", "policy"], 0),
            (["migrate", "status"], 0), (["migrate", "up"], 0), (["replay", "status"], 0),
            (["replay", "plan", "--to-handlers", "--dry-run"], 1), (["replay", "import", "/dev/null"], 0),
            (["forget", "--token-file", token, "--yes"], nil), (["config", "show"], 0),
        ] as [([String], Int32?)] {
            let run = try await FakeTerminal(columns: nil).run(command + ["--config", path])
            #expect(run.status != 78 && !run.errors.contains("server-key"), "\(command): \(run)")
            if let status { #expect(run.status == status, "\(command): \(run)") }
        }
        // What needs the secrets says so.
        let check = try await FakeTerminal(columns: nil).run(["check", "--config", path])
        #expect(check.status == 78 && check.errors.contains("CREDENTIALS_DIRECTORY"))
    }
}
