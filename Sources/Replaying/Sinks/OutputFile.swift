import CGlibc
import Glibc
import Querying

/// A file's identity whatever its path: device and inode.
struct FileIdentity: Sendable, Equatable {
    var device: UInt64
    var inode: UInt64

    init(_ status: upstream_file) {
        device = status.device
        inode = status.inode
    }

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ":").compactMap { UInt64($0) }
        guard parts.count == 2 else { return nil }
        (device, inode) = (parts[0], parts[1])
    }

    /// The file at a path, without following links; nil if there is none.
    init?(at path: String) {
        var status = upstream_file()
        guard upstream_lstat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    var text: String { "\(device):\(inode)" }
}

/// The files that belong to a replay: the column `replays.file`.
struct OutputMark: Sendable, Equatable {
    /// The file that this run writes or has written.
    var current: FileIdentity?
    /// The file of an earlier run, which this one replaces.
    var earlier: FileIdentity?

    init(current: FileIdentity? = nil, earlier: FileIdentity? = nil) {
        (self.current, self.earlier) = (current, earlier)
    }

    init(_ text: String?) {
        let parts = (text ?? "").split(separator: " ", omittingEmptySubsequences: false)
        current = parts.first.flatMap { FileIdentity($0) }
        earlier = parts.count > 1 ? FileIdentity(parts[1]) : nil
    }

    var text: String { "\(current?.text ?? "") \(earlier?.text ?? "")" }
}

/// A replay's file: `FILE.partial` until it is complete, then `FILE`.
///
/// Files that this replay has not written are neither changed nor replaced: the file is created exclusively, links are
/// not followed, and an existing file is continued only if it is the one that the database names, is ours, and nobody
/// else can write to it.
struct OutputFile: Sendable {
    let descriptor: Int32
    /// To be stored before anything is written.
    let mark: OutputMark
    private let path: String

    private var partial: String { path + ".partial" }

    /// Opens the file, truncated to where the run continues.
    ///
    /// - Throws: ``ReplayError`` if it can't be opened, another process writes to it, or it does not belong to this
    ///   replay.
    init(_ path: String, from bytes: Int64, _ known: OutputMark) throws(ReplayError) {
        self.path = path
        var mark = known
        let partial = path + ".partial"
        if let whole = FileIdentity(at: path), whole != mark.earlier || mark.earlier == nil {
            guard whole == mark.current, FileIdentity(at: partial) == nil else {
                throw ReplayError(.refused, "\(path) exists already: choose another name, or remove it")
            }
            if bytes > 0 {
                // Killed after the rename, before the replay was stored as finished.
                try Self.move(path, to: partial)
            } else {
                // Sent again: replaced at the end of this run.
                mark = OutputMark(current: nil, earlier: whole)
            }
        }
        descriptor = try Self.open(partial, &mark, isNew: bytes == 0)
        self.mark = mark
        do throws(ReplayError) {
            try Self.cut(descriptor, partial, bytes)
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private static func open(_ path: String, _ mark: inout OutputMark, isNew: Bool) throws(ReplayError) -> Int32 {
        let fresh = isNew ? Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600) : -1
        guard fresh < 0 else {
            var status = upstream_file()
            _ = upstream_fstat(fresh, &status)
            mark.current = FileIdentity(status)
            return fresh
        }
        guard !isNew || errno == EEXIST else { throw failure("can't create \(path)") }
        let descriptor = Glibc.open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            guard errno != ELOOP else { throw ReplayError(.refused, "\(path) is a link: remove it") }
            guard errno != ENOENT else {
                throw ReplayError(.invalid, "\(path) is missing: put it back, or send everything again with --again")
            }
            throw failure("can't open \(path)")
        }
        var status = upstream_file()
        _ = upstream_fstat(descriptor, &status)
        let identity = FileIdentity(status)
        let isPlain = status.mode & S_IFMT == S_IFREG && status.links == 1
        let isOurs = status.owner == geteuid() && status.mode & 0o022 == 0
        // A run that was killed before it could store what it had created leaves an empty file.
        guard isPlain, isOurs, identity == mark.current || isNew && status.size == 0 else {
            Glibc.close(descriptor)
            throw ReplayError(
                .refused,
                "\(path) is not the file that this replay wrote: remove it, or plan the replay with another name"
            )
        }
        mark.current = identity
        return descriptor
    }

    private static func cut(_ descriptor: Int32, _ path: String, _ bytes: Int64) throws(ReplayError) {
        // Held as long as the descriptor is open, even by a stopped process.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw ReplayError(.refused, "another process writes to \(path)")
        }
        let size = lseek(descriptor, 0, SEEK_END)
        guard size >= bytes else {
            throw ReplayError(
                .invalid,
                "\(path) has \(size) bytes, but this replay has written \(bytes): send everything again with --again"
            )
        }
        guard ftruncate(descriptor, off_t(bytes)) == 0, lseek(descriptor, off_t(bytes), SEEK_SET) >= 0 else {
            throw failure("can't truncate \(path) to \(bytes) bytes")
        }
    }

    func finish() throws(ReplayError) {
        guard FileIdentity(at: partial) == mark.current else {
            throw ReplayError(.refused, "\(partial) was replaced while this replay wrote it")
        }
        // The replay is stored as finished next, and then its file must have its name after a crash, too.
        defer { ExportFile.syncFolder(of: path) }
        guard let earlier = mark.earlier, FileIdentity(at: path) != nil else { return try Self.move(partial, to: path) }
        // Moved away first and checked there, so that nothing can take its place between check and replacement.
        let old = "\(path).replaced-\(earlier.inode)"
        try Self.move(path, to: old)
        guard FileIdentity(at: old) == earlier else {
            try Self.move(old, to: path)
            throw ReplayError(.refused, "\(path) is not the file that this replay wrote before: remove it")
        }
        try Self.move(partial, to: path)
        unlink(old)
    }

    /// Renames a file if the new name is free; a plain rename would replace an existing file.
    private static func move(_ path: String, to other: String) throws(ReplayError) {
        if link(path, other) == 0 {
            unlink(path)
            return
        }
        let cause = errno
        guard cause != EEXIST else {
            throw ReplayError(.refused, "\(other) exists already: choose another name, or remove it")
        }
        // On file systems without hard links.
        guard [EPERM, ENOTSUP, EMLINK, ENOSYS].contains(cause), FileIdentity(at: other) == nil else {
            throw ReplayError(.unavailable, "can't rename \(path) to \(other): \(String(cString: strerror(cause)))")
        }
        guard rename(path, other) == 0 else { throw failure("can't rename \(path) to \(other)") }
    }

    static func failure(_ what: String) -> ReplayError {
        ReplayError(.unavailable, "\(what): \(String(cString: strerror(errno)))")
    }
}
