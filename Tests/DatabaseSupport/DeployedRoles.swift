import Foundation

/// What `deploy/roles.sql` does.
package enum DeployedRoles {
    /// The script as a server takes it: without the commands that are psql's.
    ///
    /// - Throws: What reading it throws.
    package static func script() throws -> String {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let text = try String(contentsOf: root.appending(path: "deploy/roles.sql"), encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("\\") }
            .joined(separator: "\n")
    }

    /// The script, and a role to sign in as within each of the two for workers and readers: `w` and `r`.
    ///
    /// One at a time: roles belong to the whole cluster, and tests run side by side.
    ///
    /// - Throws: What reading it throws.
    package static func scriptWithLogins() throws -> String {
        """
        BEGIN; SELECT pg_advisory_xact_lock(1); \(try script());
        DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'w') THEN CREATE ROLE w LOGIN IN ROLE upstream_worker; END IF;
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'r') THEN CREATE ROLE r LOGIN IN ROLE upstream_reader; END IF;
        END $$; COMMIT
        """
    }
}
