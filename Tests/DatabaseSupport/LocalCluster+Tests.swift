import Foundation
import Glibc
package import LocalDatabase

extension LocalCluster {
    /// A cluster that goes away with the process; each suite has its own, since some read the server's log.
    package static func forTests(_ suite: String) -> LocalCluster {
        var options = Options()
        options.fsync = false
        options.isTemporary = true
        do {
            return try start(in: URL(filePath: "/tmp/upstream-\(suite)-tests-\(getpid())"), options)
        } catch {
            fatalError("\(error)")
        }
    }
}
