import CLibPQ
import Dispatch
import Glibc

/// The one owner of a `PGconn`, used on its ``PostgresConnection``'s thread only.
final class ConnectionHandle {
    let pointer: OpaquePointer
    /// The server's notices since the last command was sent.
    let notices = Notices()

    /// Takes over the result of a `PQconnect…` call.
    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
        // Without this, notices go to stderr. They live as long as we do, and libpq calls back only inside our calls.
        _ = PQsetNoticeReceiver(
            pointer,
            { notices, result in
                guard let notices, let result else { return }
                Unmanaged<Notices>.fromOpaque(notices).takeUnretainedValue().add(result)
            },
            Unmanaged.passUnretained(notices).toOpaque()
        )
    }

    // Sends a Terminate message if the connection is open, and frees everything.
    deinit { PQfinish(pointer) }

    var isBad: Bool { PQstatus(pointer) == CONNECTION_BAD }

    /// The text of the connection's last failure, on one line.
    var errorMessage: String {
        // libpq owns the text.
        String(cString: PQerrorMessage(pointer)).split(separator: "\n").joined(separator: "; ")
    }

    /// A parameter reported by the server, such as `server_encoding`.
    func parameterStatus(_ name: String) -> String? {
        // libpq owns the text.
        PQparameterStatus(pointer, name).map { String(cString: $0) }
    }
}

/// The one owner of a `PGcancel`, usable from any thread while the connection works.
final class CancelHandle: @unchecked Sendable {
    private let pointer: OpaquePointer
    private let requests = DispatchGroup()

    /// Copies what a cancel request needs; nil when libpq is out of memory.
    init?(_ connection: ConnectionHandle) {
        // We own the result and free it in deinit.
        guard let pointer = PQgetCancel(connection.pointer) else { return nil }
        self.pointer = pointer
    }

    deinit { PQfreeCancel(pointer) }

    /// Asks the server to cancel the running statement; on its own thread, since it connects and waits.
    func requestCancel() {
        requests.enter()
        // A failure is harmless: the caller gives the connection up if the cancel shows no effect.
        let isStarted = startThread(name: "pg-cancel") { [self] in
            var text = [CChar](repeating: 0, count: 256)
            _ = PQcancel(pointer, &text, Int32(text.count))
            requests.leave()
        }
        if !isStarted { requests.leave() }
    }

    /// Waits until the server has handled every request, which could otherwise cancel the next statement.
    ///
    /// - Returns: False if the time is over.
    func waitForRequests(milliseconds: Int) -> Bool {
        // libpq returns once the server has closed the request's connection, which it does after signalling the
        // session; an idle session ignores the signal.
        requests.wait(timeout: .now() + .milliseconds(milliseconds)) == .success
    }
}

/// A pipe that wakes a thread from `poll`.
final class Waker: Sendable {
    let readEnd: Int32
    private let writeEnd: Int32

    /// Nil when the process is out of file descriptors.
    init?() {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    func wake() {
        var byte: UInt8 = 0
        // If the pipe is full, the reader is about to wake anyway.
        _ = write(writeEnd, &byte, 1)
    }

    func drain() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(readEnd, &bytes, bytes.count) == bytes.count {}
    }
}
