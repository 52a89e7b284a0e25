import ConfigurationKeys
import Probing
import UpstreamKit

/// A program that handles messages.
struct ExecKind: HandlerKind {
    static let key = "exec"

    /// The program and its arguments; no shell.
    var command: [String]
    var mode: ExecHandler.Mode

    init(_ scope: ConfigurationScope) {
        let list = scope.list("command", of: .text, "required", "Program and arguments; no shell.")
        command = list ?? []
        mode = scope.value("mode", .word(ExecHandler.Mode.stream), default: "stream", "`once`: a process per message.")
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
