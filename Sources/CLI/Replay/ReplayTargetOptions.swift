import ArgumentParser
import Foundation
import Replaying
import Vocabulary

struct ReplayTargetOptions: ParsableArguments {
    @Flag(help: "To the handlers that are subscribed to each message's category.")
    var toHandlers = false
    @Option(name: .customLong("handler"), help: "To this handler, whatever its subscriptions; may be repeated.")
    var handlers: [String] = []
    @Flag(help: "Only dead letters.")
    var onlyFailed = false
    @Flag(help: "Also messages that the handlers have already handled.")
    var includeSucceeded = false
    @Flag(help: "Also what an earlier replay has sent to the same handler or server.")
    var includeReplayed = false
    @Option(help: ArgumentHelp("To an XMPP server with a worker behind it.", valueName: "host:port"))
    var to: String?
    @Option(help: ArgumentHelp("The account there: the worker's own.", valueName: "name@domain"))
    var account: String?
    @Option(help: ArgumentHelp("To a file; - for stdout.", valueName: "file"), completion: .file())
    var output: String?
    @Option(help: "Format of the output: ndjson or stanzas.")
    var format = ReplayFormat.ndjson

    /// The target.
    ///
    /// - Throws: ``CommandFailure``: no target, several, or options that do not fit it.
    func make() throws -> ReplayRequest.Target {
        let isToHandlers = toHandlers || !handlers.isEmpty
        guard [isToHandlers, to != nil, output != nil].filter({ $0 }).count == 1 else {
            throw CommandFailure(
                .usage,
                "give exactly one target: --to-handlers, --handler NAME, --to HOST:PORT, or --output FILE"
            )
        }
        guard isToHandlers || !(onlyFailed || includeSucceeded) else {
            throw CommandFailure(.usage, "--only-failed and --include-succeeded only apply to handlers")
        }
        guard !(onlyFailed && includeSucceeded) else {
            throw CommandFailure(.usage, "--only-failed and --include-succeeded contradict each other")
        }
        guard output == nil || !includeReplayed else {
            throw CommandFailure(
                .usage,
                "--include-replayed is for handlers and servers; a file always gets everything"
            )
        }
        if isToHandlers {
            return .handlers(handlers, onlyFailed ? .onlyFailed : includeSucceeded ? .all : .notHandled)
        }
        if let output {
            let path =
                output == "-"
                ? nil
                : URL(filePath: output, relativeTo: .currentDirectory()).standardizedFileURL.path
            return .other(.output(path: path, format: format))
        }
        return try endpoint()
    }

    private func endpoint() throws -> ReplayRequest.Target {
        let endpoint = to ?? ""
        guard let colon = endpoint.lastIndex(of: ":"), let port = Int(endpoint[endpoint.index(after: colon)...]),
            (1...65_535).contains(port), colon != endpoint.startIndex
        else { throw CommandFailure(.usage, "--to takes HOST:PORT") }
        let host = endpoint[..<colon].trimmingCharacters(in: ["[", "]"])
        guard let account, account.split(separator: "@", omittingEmptySubsequences: false).count == 2,
            !account.hasPrefix("@"), !account.hasSuffix("@"), !account.contains("/")
        else {
            throw CommandFailure(.usage, "--to needs --account NAME@DOMAIN: the account of the worker there")
        }
        return .other(.endpoint(host: host, port: port, account: account))
    }
}

extension ReplayFormat: ExpressibleByArgument {}
