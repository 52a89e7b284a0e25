import CGlibc
import Glibc
import Synchronization

/// A subprocess that leads its own process group; owns the process id until the process is reaped.
///
/// Not Foundation's `Process`: it waits for the end of a socket that a grandchild can hold open for ever, and starts
/// children with most signals blocked.
package final class ChildProcess: Sendable {
    package enum Exit: Sendable, Hashable {
        case code(Int32)
        case signal(Int32)
    }

    /// Whether the process outlives the thread that started it.
    package enum Lifetime: Sendable {
        /// It lives on, and its group outlives it.
        case own
        /// The kernel kills it when the thread that started it ends; its group is killed when it ends.
        case boundToThread
    }

    /// The process id; once this process is reaped, another may get it.
    package let id: Int32
    private let lifetime: Lifetime
    private let exit = Mutex<Exit?>(nil)

    /// Starts a program; the caller must ``wait()`` for it, or it stays a zombie.
    ///
    /// The descriptors stay the caller's; nil means no input, and output to `/dev/null`.
    package init(
        _ program: ChildProgram,
        input: CInt? = nil,
        output: CInt? = nil,
        error: CInt? = nil,
        lifetime: Lifetime = .own
    ) throws(SpawnError) {
        // We own and free both arrays; the kernel has copied them once the program runs.
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
        (self.id, self.lifetime) = (id, lifetime)
    }

    package var isRunning: Bool { exit.withLock { $0 == nil && upstream_has_ended(id) == 0 } }

    /// Sends a signal, unless the process has been reaped.
    package func send(_ signal: Int32) {
        // Under the lock, so that the id can't have gone to another process meanwhile.
        exit.withLock { exit in
            if exit == nil { _ = Glibc.kill(id, signal) }
        }
    }

    /// Kills the process group, unless the process has been reaped.
    package func kill() {
        exit.withLock { exit in
            if exit == nil { _ = Glibc.kill(-id, SIGKILL) }
        }
    }

    /// Waits for the end and reaps the process; if it is bound to a thread, also kills the rest of its group.
    @discardableResult
    package func wait() -> Exit {
        var information = siginfo_t()
        // Leaves the zombie in place: until it is reaped, no other process can get its group's id.
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

/// A program to start, with its arguments and environment.
package struct ChildProgram: Sendable, Hashable {
    /// The absolute path, then the arguments; no shell reads them.
    package var command: [String]

    /// The whole environment, as `NAME=value`.
    package var environment: [String]

    package init(command: [String], environment: [String]) {
        (self.command, self.environment) = (command, environment)
    }

    package init(_ command: [String]) {
        var environment: [String] = []
        // libc owns the texts; nobody changes the environment while programs are started.
        var next = upstream_environment()
        while let text = next?.pointee {
            environment.append(String(cString: text))
            next = next?.successor()
        }
        self.init(command: command, environment: environment)
    }
}

package struct SpawnError: Error {
    package var number: Int32

    package var reason: String { String(cString: strerror(number)) }
}
