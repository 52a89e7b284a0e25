import FoundationEssentials
import Glibc
import NIOCore
import NIOPosix
import Processes
import Vocabulary

/// Finds the program `upstream-plugin-host`, and checks libraries with it.
enum PluginHost {
    static let name = "upstream-plugin-host"

    /// Finds the program: as configured, else beside our executable, else in `../libexec/upstream-worker/` from there.
    static func find(configured: String? = nil) throws(HandlerProblem) -> String {
        let candidates = configured.map { [$0] } ?? standard
        if let found = candidates.first(where: { access($0, X_OK) == 0 }) { return found }
        throw HandlerProblem(
            "plugin.host",
            "there is no program \(candidates.joined(separator: " or "))"
                + (configured == nil ? "; install \(name) there, or name its path in plugin.host" : "")
        )
    }

    private static var standard: [String] {
        let executable = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        guard let slash = executable.lastIndex(of: "/") else { return [name] }
        let folder = executable[..<slash]
        let parent = folder.lastIndex(of: "/").map { folder[..<$0] } ?? ""
        return ["\(folder)/\(name)", "\(parent)/libexec/upstream-worker/\(name)"]
    }

    /// What is wrong with a library, by having the host load it without opening it; nil for a plugin of the right
    /// version.
    ///
    /// This runs the library's initialisers, in the host's child.
    static func problem(with library: String, host: String) async -> String? {
        let program = ChildProgram(passingFew: [host, "--probe", library])
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let exit = eventLoop.makePromise(of: ChildProcess.Exit.self)
        let text: String
        do {
            let (child, pipes) = try await ChildProcess.start(program, readsOutput: false) { exit.succeed($0) }
            close(pipes.input)
            // Longer than the host's own limit for a library.
            let limit = eventLoop.scheduleTask(in: .seconds(40)) { child.kill() }
            let output = Promise<String>()
            // A blocking read, on a thread that has nothing else to do.
            NIOThreadPool.singleton.submit { _ in output.fulfil(readAll(pipes.error)) }
            text = await output.value
            defer { limit.cancel() }
            let end = try await exit.futureResult.get()
            if end == .code(0) { return nil }
        } catch {
            exit.fail(error)
            return "cannot start \(host): \((error as? SpawnError)?.reason ?? "\(error)")"
        }
        let line = text.split(separator: "\n").last.map(String.init) ?? ""
        return line.isEmpty ? "\(host) says that it can't be loaded" : line
    }

    /// Reads to the end and closes the descriptor; returns the first 64 KiB as text.
    private static func readAll(_ descriptor: CInt) -> String {
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = read(descriptor, &part, part.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            if bytes.count < 1 << 16 { bytes += part.prefix(count) }
        }
        return String(decoding: bytes.filter { $0 >= 0x20 || $0 == 0x0A }, as: UTF8.self)
    }
}
