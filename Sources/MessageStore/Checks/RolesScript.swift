import Glibc

/// `roles.sql`, which gives the database's roles their rights.
package enum RolesScript {
    private static let packaged = "/usr/share/upstream-worker/roles.sql"

    /// Where a person finds it: the package's file where that is installed, else the source tree's.
    package static let path = access(packaged, R_OK) == 0 ? packaged : "deploy/roles.sql"
}
