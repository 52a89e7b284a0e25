import Glibc

/// `roles.sql`, which grants the database's roles their rights.
package enum RolesScript {
    private static let packaged = "/usr/share/upstream-worker/roles.sql"

    /// Its path for people: the package's file if installed, else the source tree's.
    package static let path = access(packaged, R_OK) == 0 ? packaged : "deploy/roles.sql"
}
