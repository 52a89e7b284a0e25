import CGlibc
import Foundation
import Glibc
import Synchronization
import Telemetry
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
        let handle = try Self.open(path, O_TRUNC)
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
        return path
    }

    fileprivate static func open(_ path: String, _ flags: Int32) throws -> FileHandle {
        let file = Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0o600)
        guard file >= 0 else {
            throw CommandFailure(.unavailable, "can't write \(path): \(String(cString: strerror(errno)))")
        }
        return FileHandle(fileDescriptor: file, closeOnDealloc: true)
    }
}

/// A log in a file, for programs that use the terminal for other output.
final class FileLogOutput: LogOutput {
    private let file: Mutex<FileHandle>

    init(path: String) throws { file = Mutex(try DevFolder.open(path, O_APPEND)) }

    func write(_ line: [UInt8]) {
        // A full disk must not end the program that logs.
        file.withLock { try? $0.write(contentsOf: Data(line)) }
    }
}

/// Finds a free TCP port of 127.0.0.1.
enum FreePort {
    /// Asks the system for one; another process may take it first.
    static func find() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(descriptor, generic, length) == 0 ? getsockname(descriptor, generic, &length) : -1
            }
        }
        guard descriptor >= 0, result == 0 else {
            throw CommandFailure(.unavailable, "no free TCP port on 127.0.0.1")
        }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
