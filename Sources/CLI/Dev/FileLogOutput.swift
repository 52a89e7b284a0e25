import Foundation
import Glibc
import Synchronization
import Telemetry
import Vocabulary

/// A log in a file, for programs that use the terminal for other output.
final class FileLogOutput: LogOutput {
    private let file: Mutex<FileHandle>

    /// Appends to a file, creating it if needed.
    init(path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(.unavailable, "can't write \(path): \(String(cString: strerror(errno)))")
        }
        file = Mutex(FileHandle(fileDescriptor: descriptor, closeOnDealloc: true))
    }

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
