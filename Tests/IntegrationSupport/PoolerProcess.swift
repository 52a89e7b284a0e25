package import Foundation

/// Starts Debian's pgbouncer in a folder, which gets the configuration.
///
/// It refuses to run as root, and then runs as `postgres`.
package func startPgbouncer(_ configuration: String, in folder: URL) throws -> Process {
    let file = folder.appending(path: "ini")
    try configuration.write(to: file, atomically: true, encoding: .utf8)
    let process = Process()
    let line = ["/usr/sbin/pgbouncer", "-q", file.path]
    if getuid() == 0, let user = getpwnam("postgres") {
        chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid)
        process.executableURL = URL(filePath: "/usr/bin/setpriv")
        process.arguments = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] + line
    } else {
        process.executableURL = URL(filePath: line[0])
        process.arguments = Array(line.dropFirst())
    }
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    return process
}
