import CGlibc
import ConfigurationKeys
import Glibc
import Probing
import UpstreamKit
import Vocabulary

struct ExecKind: HandlerKind {
    static let key = "exec"

    var command: [String]
    var mode: ExecHandler.Mode

    init(_ scope: ConfigurationScope) {
        let list = scope.list("command", of: .text, "required").means("Program and arguments; no shell.")
        command = list ?? []
        mode = scope.value("mode", .word(ExecHandler.Mode.stream), default: "stream")
            .means("`once`: a process per message.")
        guard let program = command.first else {
            if list != nil || scope.isMissing("command") { scope.problem("command", "must name a program") }
            return
        }
        if !program.hasPrefix("/") { scope.problem("command", "must begin with an absolute path, not '\(program)'") }
    }

    func body(_ common: HandlerCommon) -> HandlerRegistration.Body {
        .handler(ExecHandler(name: common.name, command: command, mode: mode, logger: common.logger))
    }

    func probes(_ session: any HandlerProbeSession) -> [Probe] {
        [Probe("program") { ExecProgram.probe(command.first ?? "") }]
    }
}

enum ExecProgram {
    /// Whether this process's user can start it.
    static func probe(_ path: String) -> Probe.Result {
        func failed(_ cause: String, _ fix: String) -> Probe.Result {
            .failed(cause: cause, fix: fix, status: .configuration)
        }
        var status = upstream_file()
        guard upstream_stat(path, &status) == 0 else {
            return failed("'\(path)': \(String(cString: strerror(errno)))", "install it, or correct exec.command")
        }
        guard status.mode & S_IFMT == S_IFREG else {
            return failed("'\(path)' is not a file", "name the program itself in exec.command")
        }
        guard access(path, X_OK) == 0 else {
            return failed(
                "'\(path)' can't be executed by this user (\(geteuid())): \(String(cString: strerror(errno)))",
                "chmod a+rx it, and let the worker's user enter its folders"
            )
        }
        if let interpreter = interpreter(of: path), access(interpreter, X_OK) != 0 {
            return failed(
                "'\(path)' is a script for '\(interpreter)': \(String(cString: strerror(errno)))",
                "install the interpreter, or correct the script's first line"
            )
        }
        return .passed(detail: "'\(path)' is there and executable by this user (\(geteuid()))")
    }

    /// The interpreter in a script's first line (execve(2)); nil for other programs.
    private static func interpreter(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 2, bytes[0] == UInt8(ascii: "#"), bytes[1] == UInt8(ascii: "!") else { return nil }
        let line = bytes[2..<count].prefix { $0 != UInt8(ascii: "\n") }
        let word = line.drop { $0 == 0x20 || $0 == 0x09 }.prefix { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }
        return word.isEmpty ? nil : String(decoding: word, as: UTF8.self)
    }
}
