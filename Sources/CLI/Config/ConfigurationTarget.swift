import CGlibc
import Glibc
import Vocabulary

/// The file that `config init` writes: atomically, and never over another unless told.
struct ConfigurationTarget {
    let path: String
    let replaces: Bool

    /// Checks, before anything is asked, that it can be written.
    func check() throws(CommandFailure) {
        guard path != "-" else { return }
        var status = upstream_file()
        if upstream_stat(path, &status) == 0 {
            guard replaces else { throw Self.exists(path) }
            guard status.mode & S_IFMT == S_IFREG else {
                throw CommandFailure(.negative, "'\(path)' is not a file: nothing was written")
            }
        }
    }

    /// Writes it with mode 640, owned by root and the worker's group.
    ///
    /// - Throws: ``CommandFailure``: it exists and must not be replaced, or the folder can't be written to.
    func write(_ text: String) throws(CommandFailure) {
        let temporary = "\(path).\(getpid()).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure() }
        defer { unlink(temporary) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw closing(descriptor) }
            bytes = bytes.dropFirst(count)
        }
        // The group of the Debian package's system user; elsewhere the file stays the caller's.
        if geteuid() == 0, let group = getgrnam("upstream-worker") {
            guard fchown(descriptor, 0, group.pointee.gr_gid) == 0 else { throw closing(descriptor) }
        }
        guard fchmod(descriptor, 0o640) == 0, fsync(descriptor) == 0 else { throw closing(descriptor) }
        close(descriptor)
        // Unlike a rename, a link fails if the file exists.
        guard (replaces ? rename(temporary, path) : link(temporary, path)) == 0 else { throw failure() }
    }

    private func closing(_ descriptor: Int32) -> CommandFailure {
        let failure = failure()
        close(descriptor)
        return failure
    }

    private func failure() -> CommandFailure {
        errno == EEXIST
            ? Self.exists(path)
            : CommandFailure(.negative, "can't write '\(path)': \(String(cString: strerror(errno)))")
    }

    private static func exists(_ path: String) -> CommandFailure {
        CommandFailure(.negative, "'\(path)' exists: replace it with --force, or name another file")
    }
}
