import MessageStore
package import Postgres
import Vocabulary

/// Advice about a database that refuses or fails.
package enum DatabaseAdvice {
    /// The most likely fix, as a sentence without a full stop; role and database are the session's, nil without one.
    package static func fix(_ error: PostgresError, role: String? = nil, database: String? = nil) -> String {
        if let key = error.unusableKey { return "write \(key) as postgresql://HOST/DATABASE, or as host=… dbname=…" }
        return switch error.failureClass {
        case .connection, .deadline: "check that the server runs and that database.url names its host and port"
        case .authentication: refusal(error)
        case .readOnly: "name the primary in database.url, or all hosts: a worker connects to the writable one"
        case .permission: rights(role: role ?? "upstream-worker", database: database)
        case .resources: shortage(error)
        case .schema where error.message.contains("not PostgreSQL"):
            "use PostgreSQL 14 or later, or a service that runs it: docs/databases.md lists them"
        case .schema where error.sqlState == nil: "create the database with ENCODING 'UTF8'"
        case .schema: "see upstream-worker migrate status"
        case .lock: "another session holds a lock: upstream-worker doctor names it while it does"
        default: "see the server's log"
        }
    }

    /// How to grant a role what `run` needs.
    package static func rights(role: String, database: String?) -> String {
        "run as a superuser or as the schema's owner: psql -d \(database ?? "upstream") -f \(RolesScript.path), and "
            + "GRANT upstream_worker TO \"\(role)\"; or name another role in database.url"
    }

    /// The hint for a command that could not sign in, or lacks a right; nil for other errors.
    package static func hint(_ error: PostgresError) -> String? {
        switch error.failureClass {
        case .authentication, .connection, .resources: "fix: " + fix(error)
        case .permission:
            "fix: run it as a role that may: upstream_console or upstream_reader read everything (sudo -u upstream-console …), "
                + "upstream_worker stores and settles (sudo -u upstream-worker …), the schema's owner does the rest; "
                + "if that is such a role, run \(RolesScript.path) again, in this database"
        default: nil
        }
    }

    /// Advice on class 53: what is short, and whose connection limit it is, if the server's messages are English.
    private static func shortage(_ error: PostgresError) -> String {
        switch error.sqlState {
        case "53100": "make room on the server's disk: upstream-worker doctor, run there, says how much is left"
        case "53200": "the server is out of memory: see its log, and lower shared_buffers, work_mem or max_connections"
        case "53300" where error.message.contains("for role"):
            "raise the role's limit: ALTER ROLE … CONNECTION LIMIT -1; or lower database.writers and the handlers' "
                + "concurrency"
        case "53300" where error.message.contains("for database"):
            "raise the database's limit: ALTER DATABASE … CONNECTION LIMIT -1; or lower database.writers and the "
                + "handlers' concurrency"
        case "53300": "raise max_connections of the server and restart it, or put PgBouncer between"
        default: "the server has run out of connections, disk or memory: see its log"
        }
    }

    private static func refusal(_ error: PostgresError) -> String {
        let message = error.message
        switch error.sqlState {
        case nil:
            return
                "the server asks for a password: put it into a file of mode 600 (host:port:database:role:password) and name "
                + "the file in database.url: passfile=/etc/upstream-worker/pgpass"
        case "28P01":
            return "the password is wrong, or there is no such role: compare the passfile that database.url names with "
                + "ALTER ROLE … PASSWORD"
        case "3D000":
            return
                "create the database (createdb --owner=upstream_owner --encoding=UTF8 --template=template0 upstream), or "
                + "correct its name in database.url"
        default: break
        }
        if message.contains("does not exist") {
            return
                "create the role (psql -f \(RolesScript.path) makes \"upstream-worker\"), or name another in database.url "
                + "with user=; without one it is the name of the system user who runs this"
        }
        if message.contains("Peer authentication") || message.contains("Ident authentication") {
            return
                "the server lets a system user in as the role of the same name only (pg_hba.conf: peer): run this as that "
                + "user (sudo -u upstream-worker …), or name a role with a password and a passfile in database.url"
        }
        if message.contains("no pg_hba.conf entry") {
            return "pg_hba.conf has no line for this host, role and database: add one and reload the server"
        }
        return "check the role that database.url names (without one, that of this system user), and pg_hba.conf"
    }
}
