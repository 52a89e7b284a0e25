import Glibc
import UpstreamKit
import Vocabulary

/// A file with one registration token.
enum TokenFile {
    /// Reads the token, without line ends around it.
    static func read(_ path: String, stdin: Int32) throws(CommandFailure) -> RegistrationToken {
        let descriptor = path == "-" ? stdin : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.noInput, "can't read the token file \(path): \(String(cString: strerror(errno)))")
        }
        defer { if descriptor != stdin { close(descriptor) } }
        // A token has at most 4,096 bytes.
        var bytes = [UInt8](repeating: 0, count: 8_192)
        var count = 0
        while count < bytes.count {
            let found = bytes.withUnsafeMutableBytes { buffer in
                Glibc.read(descriptor, buffer.baseAddress.map { $0 + count }, buffer.count - count)
            }
            if found == 0 { break }
            guard found > 0 else {
                if errno == EINTR { continue }
                throw CommandFailure(.noInput, "can't read the token file \(path): \(String(cString: strerror(errno)))")
            }
            count += found
        }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw CommandFailure(.badData, "the token file is not UTF-8 text")
        }
        let token = text.drop { $0.isNewline }
        let trimmed = token[..<(token.lastIndex { !$0.isNewline }.map(token.index(after:)) ?? token.startIndex)]
        guard !trimmed.isEmpty, trimmed.utf8.count <= 4_096, !trimmed.contains(where: \.isNewline) else {
            throw CommandFailure(.badData, "the token file must hold one registration token, on one line")
        }
        return RegistrationToken(String(trimmed))
    }
}
