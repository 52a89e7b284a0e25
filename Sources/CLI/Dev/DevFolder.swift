import CGlibc
import Foundation
import Glibc
import Vocabulary

/// The folder of `dev`'s database and of the files that the worker's configuration names.
struct DevFolder {
    let url: URL

    /// The given folder; otherwise `.upstream-dev` here, or under `/var/tmp` if the database's user could not reach it.
    ///
    /// If started by root, the server runs as an unprivileged user, who needs access to every folder of the path.
    init(_ wanted: String?) {
        if let wanted {
            url = URL(fileURLWithPath: wanted)
            return
        }
        let here = URL(fileURLWithPath: FileManager.default.currentDirectoryPath)
        let isReachable = getuid() != 0 || Self.isOpen(here)
        url = isReachable ? here.appending(path: ".upstream-dev") : URL(fileURLWithPath: "/var/tmp/upstream-dev")
    }

    private static func isOpen(_ folder: URL) -> Bool {
        var path = folder.standardizedFileURL
        while true {
            var status = upstream_file()
            guard upstream_stat(path.path, &status) == 0, status.mode & S_IXOTH != 0 else { return false }
            guard path.path != "/" else { return true }
            path = path.deletingLastPathComponent()
        }
    }

    func make() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// Writes a file that only this user can read, and returns its path.
    func write(_ bytes: some Sequence<UInt8>, to name: String) throws -> String {
        let path = url.appending(path: name).path
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else {
            throw CommandFailure(.unavailable, "can't write \(path): \(String(cString: strerror(errno)))")
        }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
        return path
    }
}
