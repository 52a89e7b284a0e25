import CGlibc
import CLibPQ
import Glibc

/// A program that we started and that we alone wait for.
///
/// Foundation's `Process` hands its child a socket whose end it waits for; a grandchild that holds it too would keep it
/// waiting for ever.
struct ChildProcess {
    let id: pid_t

    /// Starts a program in a process group of its own, so that the terminal's Ctrl-C does not reach it, with no signal
    /// blocked, and with output to nowhere.
    ///
    /// `input` becomes its standard input, or nothing where it is -1. Nil when the program can't be started.
    init?(_ line: [String], input: Int32 = -1) {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        guard posix_spawn_file_actions_init(&actions) == 0, posix_spawnattr_init(&attributes) == 0 else { return nil }
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        if input >= 0 {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // Nothing else of ours: a pipe that it held would never end for whoever reads it.
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        // We own the copies; posix_spawn has read them when it returns.
        let arguments = line.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var id = pid_t()
        guard posix_spawn(&id, line[0], &actions, &attributes, arguments, upstream_environment()) == 0 else {
            return nil
        }
        self.id = id
    }

    /// Whether it has not ended yet.
    var isRunning: Bool {
        var status: Int32 = 0
        return waitpid(id, &status, WNOHANG) == 0
    }

    /// Waits for the end and returns the exit code, or -1 where a signal ended it.
    @discardableResult
    func wait() -> Int32 {
        var status: Int32 = 0
        while waitpid(id, &status, 0) == -1 {
            guard errno == EINTR else { return -1 }
        }
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : -1
    }
}
