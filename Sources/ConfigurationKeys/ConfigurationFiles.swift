import CGlibc
import Glibc

package struct ConfigurationFiles: Sendable {
    /// The folder of this unit's systemd credentials (`$CREDENTIALS_DIRECTORY`), or nil.
    package var credentials: String?
    /// Whether named files must exist.
    package var areChecked: Bool

    package init(credentials: String?, areChecked: Bool = true) {
        (self.credentials, self.areChecked) = (credentials, areChecked)
    }

    /// The path of a secret; a bare name means a systemd credential.
    func resolve(_ name: String) throws(ConfigurationTypeError) -> String {
        guard !name.contains("/") else { return name }
        guard let credentials else {
            throw .init(
                message: "is a bare name, which means a systemd credential, but $CREDENTIALS_DIRECTORY is not set: "
                    + "write a path (./\(name)), run under a unit with LoadCredential=, or in a shell set "
                    + "CREDENTIALS_DIRECTORY to the folder that holds the file"
            )
        }
        return credentials + "/" + name
    }

    /// The credentials whose source files have changed since systemd read them at the unit's start, sorted.
    ///
    /// Compares the times of the files with their names beside the configuration, from where the unit loads them;
    /// root's files can be compared too.
    package func changedCredentials(beside configuration: String) -> [String] {
        guard let credentials, let slash = configuration.lastIndex(of: "/"), let folder = opendir(credentials) else {
            return []
        }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            var (loaded, file) = (upstream_file(), upstream_file())
            guard !name.hasPrefix("."), upstream_stat(credentials + "/" + name, &loaded) == 0,
                upstream_stat(configuration[...slash] + name, &file) == 0
            else { continue }
            if file.modified > loaded.modified { names.append(name) }
        }
        return names.sorted()
    }

    static func problem(with path: String) -> String? {
        do throws(FileError) {
            return try read(path, atMost: 1 << 20, isRegular: true).isEmpty ? "'\(path)' is empty" : nil
        } catch {
            return error.message
        }
    }

    static func isWorldReadable(_ path: String) -> Bool {
        var status = upstream_file()
        guard upstream_stat(path, &status) == 0 else { return false }
        return status.mode & S_IROTH != 0
    }

    /// Reads a small file, if it is no larger than `limit`.
    ///
    /// If `isRegular`, it must be a regular file: a pipe would block the reader. If `isGuarded`, nobody else may write it
    /// either: whoever can write a secret chooses it.
    package static func read(
        _ path: String,
        atMost limit: Int,
        isRegular: Bool = false,
        isGuarded: Bool = false
    ) throws(FileError) -> [UInt8] {
        // Opening a pipe waits for its writer, unless told not to; regular files are not affected.
        let isJudged = isRegular || isGuarded
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (isJudged ? O_NONBLOCK | O_NOCTTY : 0))
        guard descriptor >= 0 else { throw FileError(path: path, number: errno) }
        defer { close(descriptor) }
        if isJudged, let fault = fault(of: descriptor, isGuarded: isGuarded) {
            throw FileError(path: path, fault: fault)
        }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                Glibc.read(
                    descriptor,
                    UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).baseAddress,
                    buffer.count - count
                )
            }
            if got == 0 { break }
            if got > 0 {
                count += got
            } else if errno != EINTR {
                throw FileError(path: path, number: errno)
            }
        }
        guard count <= limit else { throw FileError(path: path, number: EFBIG) }
        return Array(bytes[..<count])
    }
}

extension ConfigurationFiles {
    private static func fault(of descriptor: Int32, isGuarded: Bool) -> String? {
        var status = upstream_file()
        guard upstream_fstat(descriptor, &status) == 0 else { return "can't be examined" }
        switch status.mode & S_IFMT {
        case S_IFREG: break
        case S_IFDIR: return "is a directory: name the file in it"
        case S_IFIFO: return "is a pipe: write its content into a regular file"
        default: return "is a device: write its content into a regular file"
        }
        guard isGuarded else { return nil }
        guard status.mode & S_IWOTH == 0 else { return "can be written by every user of this machine: chmod 600 it" }
        guard status.mode & S_IWGRP == 0 else { return "can be written by its whole group: chmod 600 it" }
        return nil
    }
}

/// A file that can't be read, or holds no secret.
package struct FileError: Error, Sendable {
    package var path: String
    /// The `errno`; 0 if the file was read, but holds no secret.
    package var number: Int32
    /// What is wrong with its content, in constant words; empty if it could not be read.
    package var fault: String

    package init(path: String, number: Int32 = 0, fault: String = "") {
        (self.path, self.number, self.fault) = (path, number, fault)
    }

    package var message: String {
        fault.isEmpty ? "can't read '\(path)': \(String(cString: strerror(number)))" : "'\(path)' \(fault)"
    }
    package var isMissing: Bool { number == ENOENT || number == ENOTDIR }
}
