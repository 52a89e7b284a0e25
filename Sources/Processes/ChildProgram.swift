import CGlibc
import Glibc

/// A program to start, with its arguments and environment.
package struct ChildProgram: Sendable, Hashable {
    /// The absolute path, then the arguments; no shell reads them.
    package var command: [String]

    /// The whole environment, as `NAME=value`.
    package var environment: [String]

    package init(command: [String], environment: [String]) {
        self.command = command
        self.environment = environment
    }

    /// A program with the environment of this process.
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

/// Why a program could not be started.
package struct SpawnError: Error {
    package var number: Int32

    package var reason: String { String(cString: strerror(number)) }
}
