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
}
