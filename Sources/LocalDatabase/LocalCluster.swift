package import Foundation
import Glibc
import Processes
import Synchronization

/// A private PostgreSQL server in a folder, reachable over a unix socket only.
///
/// For `dev` and for tests. It ends with ``stop()``, and in any case with this process: a watching shell waits for the
/// end of a pipe that only this process holds open.
package final class LocalCluster: Sendable {
    package struct StartError: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    package struct Options: Sendable {
        package var fsync = true
        /// Lines to add to `postgresql.conf` when the folder is first filled.
        package var configuration: [String] = []
        /// Whether the folder is removed when the process ends.
        package var isTemporary = false
        /// The database to create, owned by the role `upstream`.
        package var database = "upstream"

        package init() {}
    }

    package let folder: URL
    package let socketFolder: URL
    /// The connection URL of the owner.
    package let url: String
    package let logFile: URL

    private let options: Options
    private let binaries: URL
    private let supervisor = Mutex<Supervisor?>(nil)

    private struct Supervisor {
        let process: ChildProcess
        // The write end of the pipe that the watcher waits on.
        let lifeline: Int32
    }

    /// Initialises the folder if it is empty, and starts the server.
    ///
    /// As root, the server runs as the user `postgres`, who must be able to reach the folder.
    package static func start(in folder: URL, _ options: Options = Options()) throws(StartError) -> LocalCluster {
        let cluster = LocalCluster(folder: folder, options, binaries: try findBinaries())
        try cluster.fill()
        try cluster.restart()
        return cluster
    }

    /// Starts a hot standby of `primary` in an empty folder, from a base backup.
    package static func startStandby(
        of primary: LocalCluster,
        in folder: URL,
        _ options: Options = Options()
    ) throws(StartError) -> LocalCluster {
        let standby = LocalCluster(folder: folder, options, binaries: try findBinaries())
        try standby.makeFolders()
        let arguments = [
            "-h", primary.socketFolder.path, "-U", "upstream", "-D", standby.folder.appending(path: "data").path,
            "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync",
        ]
        guard standby.run("pg_basebackup", arguments) == 0 else {
            throw StartError(description: "pg_basebackup failed for \(standby.folder.path)")
        }
        try standby.configure(["unix_socket_directories = '\(standby.socketFolder.path)'"])
        try standby.restart()
        return standby
    }

    private init(folder: URL, _ options: Options, binaries: URL) {
        self.folder = folder.standardizedFileURL
        self.options = options
        self.binaries = binaries
        logFile = self.folder.appending(path: "server.log")
        // A socket's path is limited to 107 bytes.
        let inside = self.folder.appending(path: "socket")
        socketFolder =
            inside.path.utf8.count < 80
            ? inside : URL(filePath: "/tmp/upstream-pg-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        url = "postgresql:///\(options.database)?host=\(socketFolder.path)&user=upstream"
    }

    deinit { kill(SIGQUIT) }

    /// Starts the server again after ``stop()`` or ``kill()``, and waits until it accepts connections.
    package func restart() throws(StartError) {
        // After kill -9 a start is refused until the old server's children have noticed and exited.
        let deadline = ContinuousClock.now + .seconds(30)
        repeat {
            let running = try launch()
            while running.process.isRunning && ContinuousClock.now < deadline {
                if run("pg_isready", ["-q", "-h", socketFolder.path, "-d", "postgres"]) == 0 {
                    supervisor.withLock { $0 = running }
                    return try makeDatabase()
                }
                usleep(20_000)
            }
            Self.end(running)
        } while ContinuousClock.now < deadline
        throw StartError(description: "PostgreSQL did not start; see \(logFile.path)")
    }

    /// Stops the server with a fast shutdown: sessions are ended, everything is written.
    package func stop() { kill(SIGINT) }

    /// Kills the server with SIGKILL; its sessions break.
    package func kill() { kill(SIGKILL) }

    /// The server's process id; nil while it is stopped.
    package var processID: Int32? { supervisor.withLock { $0?.process.id } }

    private func kill(_ signal: Int32) {
        guard let running = supervisor.withLock({ $0.take() }) else { return }
        running.process.send(signal)
        Self.end(running)
    }

    private static func end(_ running: Supervisor) {
        close(running.lifeline)
        running.process.wait()
    }

    private static func findBinaries() throws(StartError) -> URL {
        let files = FileManager.default
        var candidates: [String] = []
        let root = "/usr/lib/postgresql"
        for version in ((try? files.contentsOfDirectory(atPath: root)) ?? []).sorted(by: isNewer) {
            candidates.append("\(root)/\(version)/bin")
        }
        candidates += (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        for path in candidates where files.isExecutableFile(atPath: path + "/initdb") {
            return URL(filePath: path)
        }
        throw StartError(
            description: "no PostgreSQL server programs (initdb) under \(root) or in PATH: "
                + "install them with `apt-get install postgresql`"
        )
    }

    private static func isNewer(_ left: String, _ right: String) -> Bool { (Int(left) ?? 0) > (Int(right) ?? 0) }

    private func makeFolders() throws(StartError) {
        let files = FileManager.default
        do {
            try files.createDirectory(at: folder, withIntermediateDirectories: true)
            try files.createDirectory(at: socketFolder, withIntermediateDirectories: true)
        } catch {
            throw StartError(description: "can't make \(folder.path): \(FileTrouble.reason(error))")
        }
        guard getuid() == 0 else { return }
        guard let user = getpwnam("postgres") else {
            throw StartError(
                description: "PostgreSQL does not run as root and there is no user postgres to run it as: "
                    + "install the package postgresql, or run this as another user"
            )
        }
        for path in [folder.path, socketFolder.path] { chown(path, user.pointee.pw_uid, user.pointee.pw_gid) }
    }

    private func fill() throws(StartError) {
        try makeFolders()
        let data = folder.appending(path: "data")
        guard !FileManager.default.fileExists(atPath: data.appending(path: "PG_VERSION").path) else { return }
        let arguments = [
            "-D", data.path, "-A", "trust", "-U", "upstream", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
            "--no-instructions",
        ]
        guard run("initdb", arguments) == 0 else {
            throw StartError(
                description: "initdb failed for \(data.path); can the user who runs PostgreSQL reach the folder?"
            )
        }
        var lines = ["listen_addresses = ''", "unix_socket_directories = '\(socketFolder.path)'"]
        lines.append("unix_socket_permissions = 0700")
        if !options.fsync { lines.append("fsync = off") }
        try configure(lines + options.configuration)
    }

    private func configure(_ lines: [String]) throws(StartError) {
        let file = folder.appending(path: "data/postgresql.conf")
        do {
            let old = try String(contentsOf: file, encoding: .utf8)
            try (old + lines.joined(separator: "\n") + "\n").write(to: file, atomically: false, encoding: .utf8)
        } catch {
            throw StartError(description: "can't write \(file.path): \(FileTrouble.reason(error))")
        }
    }

    private func makeDatabase() throws(StartError) {
        let made = run("createdb", ["-h", socketFolder.path, "-U", "upstream", options.database])
        let listed = made == 0 ? 0 : run("pg_isready", ["-q", "-h", socketFolder.path, "-d", options.database])
        guard listed == 0 else { throw StartError(description: "can't make the database \(options.database)") }
    }

    private func launch() throws(StartError) -> Supervisor {
        // The shell becomes the server and leaves a watcher behind, which stops the server when the pipe closes.
        let script = """
            folder=$1; temporary=$2; shift 2
            exec 3<&0
            (
                read -r _ <&3
                kill -INT $$ 2>/dev/null
                [ "$temporary" = yes ] || exit 0
                pid="$folder/data/postmaster.pid"
                # After kill -9 the file stays and its process does not.
                while [ -e /proc/$PPID ] || { [ -e "$pid" ] && kill -0 "$(head -n 1 "$pid")" 2>/dev/null; }; do
                    sleep 0.1
                done
                rm -rf "$folder"
            ) >/dev/null 2>&1 &
            exec 3<&-
            exec "$@" >>"$folder/server.log" 2>&1 </dev/null
            """
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw StartError(description: "no file descriptor left for PostgreSQL") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let line =
            ["/bin/sh", "-c", script, "sh", folder.path, options.isTemporary ? "yes" : "no"]
            + command("postgres", ["-D", folder.appending(path: "data").path])
        let process = try? ChildProcess(ChildProgram(line), input: ends[0])
        close(ends[0])
        guard let process else {
            close(ends[1])
            throw StartError(description: "can't start /bin/sh to run PostgreSQL")
        }
        return Supervisor(process: process, lifeline: ends[1])
    }

    private func command(_ program: String, _ arguments: [String]) -> [String] {
        let asPostgres = ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        return (getuid() == 0 ? asPostgres : []) + [binaries.appending(path: program).path] + arguments
    }

    /// Runs one of PostgreSQL's programs as the server's user.
    func run(_ program: String, _ arguments: [String]) -> Int32 {
        guard let process = try? ChildProcess(ChildProgram(command(program, arguments))) else { return -1 }
        guard case .code(let code) = process.wait() else { return -1 }
        return code
    }
}
