import CGlibc
import Glibc
import Synchronization

/// A subprocess, leader of its own process group: owns the process id until the process has been reaped.
///
/// Not Foundation's `Process`, which hands its child a socket whose end it waits for: a grandchild that holds it too would
/// keep it waiting for ever. It also starts its children with most signals blocked.
package final class ChildProcess: Sendable {
    /// How the process ended.
    package enum Exit: Sendable, Hashable {
        /// It called `exit` with this code.
        case code(Int32)
        /// A signal ended it.
        case signal(Int32)
    }

    /// What becomes of the process, and of its group, when those who started it end.
    package enum Lifetime: Sendable {
        /// It lives on, and its group outlives it.
        case own
        /// The system kills it when the thread that started it ends; its group is killed when it ends.
        case boundToThread
    }

    /// The process id; another process may have it once this one has been reaped.
    package let id: Int32
    private let lifetime: Lifetime
    private let exit = Mutex<Exit?>(nil)

    /// Starts a program; whoever does must ``wait()`` for it, or it stays a zombie.
    ///
    /// - Parameters:
    ///   - program: What to start.
    ///   - input: Its standard input, which stays the caller's; nil for none.
    ///   - output: Its standard output, which stays the caller's; nil where it goes to `/dev/null`.
    ///   - error: Its standard error, which stays the caller's; nil where it goes to `/dev/null`.
    ///   - lifetime: Whether it ends with the thread that calls this.
    /// - Throws: ``SpawnError``
    package init(
        _ program: ChildProgram,
        input: CInt? = nil,
        output: CInt? = nil,
        error: CInt? = nil,
        lifetime: Lifetime = .own
    ) throws(SpawnError) {
        // Both arrays are copies that we own and free; the kernel has copied them when the program runs.
        let arguments = program.command.map { strdup($0) } + [nil]
        let environment = program.environment.map { strdup($0) } + [nil]
        defer { for text in arguments + environment { free(text) } }
        let id = upstream_start(
            program.command.first ?? "",
            arguments,
            environment,
            input ?? -1,
            output ?? -1,
            error ?? -1,
            lifetime == .boundToThread ? 1 : 0
        )
        guard id > 0 else { throw SpawnError(number: -id) }
        self.id = id
        self.lifetime = lifetime
    }

    /// Whether it has not ended yet.
    package var isRunning: Bool { exit.withLock { $0 == nil && upstream_has_ended(id) == 0 } }

    /// Sends it a signal; nothing happens once the process has been reaped.
    package func send(_ signal: Int32) {
        // Under the lock, so that the id can't have gone to another process meanwhile.
        exit.withLock { exit in
            if exit == nil { _ = Glibc.kill(id, signal) }
        }
    }

    /// Kills the whole process group; nothing happens once the process has been reaped.
    package func kill() {
        exit.withLock { exit in
            if exit == nil { _ = Glibc.kill(-id, SIGKILL) }
        }
    }

    /// Waits for the end and reaps the process; of one that is bound to a thread, kills what is left of the group.
    @discardableResult
    package func wait() -> Exit {
        var information = siginfo_t()
        // Leaves the zombie in place: as long as it stands, its group's id can't be anybody else's.
        while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        return exit.withLock { exit in
            if let exit { return exit }
            if lifetime == .boundToThread { _ = Glibc.kill(-id, SIGKILL) }
            var status: Int32 = 0
            while waitpid(id, &status, 0) == -1, errno == EINTR {}
            // WIFEXITED, WEXITSTATUS and WTERMSIG are macros that Swift can't import.
            let ended: Exit = status & 0x7F == 0 ? .code(status >> 8 & 0xFF) : .signal(status & 0x7F)
            exit = ended
            return ended
        }
    }
}
