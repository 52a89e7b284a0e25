import Dispatcher
import Foundation
import Glibc
import IntegrationSupport
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// A handler over the faulty plugin, and what the plugin notes.
struct FaultyPlugin {
    let handler: PluginHandler
    let notes: PluginNotes
    let log = RecordedLog()

    init(
        library: String? = nil,
        host: String? = nil,
        configuration: String? = nil,
        processes: Int = 1,
        memory: Int = 0,
        timeout: Duration = .seconds(20),
        messages: Int = 16
    ) throws {
        notes = try PluginNotes()
        handler = PluginHandler(
            name: "h",
            options: PluginHandler.Options(
                host: try host ?? PluginHost.find(),
                library: try library ?? PluginLibrary.faulty.get().path,
                configuration: configuration ?? notes.folder.path,
                processes: processes,
                memory: memory,
                timeout: timeout,
                messages: messages
            ),
            logger: log.logger
        )
    }

    /// Gives all messages at once, and returns what became of each.
    func run(
        _ data: [String],
        attempt: Int = 1,
        trace: (parent: String, state: String?)? = nil
    ) async
        -> [HandlerVerdict]
    {
        await withTaskGroup(of: (Int, HandlerVerdict).self) { tasks in
            for (index, text) in data.enumerated() {
                tasks.addTask { [handler] in
                    // A key for each text, so that what is given again is the same message.
                    let key = text.utf8.reduce(UInt64(1)) { $0 &* 31 &+ UInt64($1) }
                    let message = UpstreamMessage.sample(
                        category: "a",
                        data: text,
                        messageKey: MessageKey(Digest128(high: 0x5A, low: key))
                    )
                    var context = HandlerContext(handler: "h", attempt: attempt, deadline: .now + .seconds(600))
                    (context.traceparent, context.tracestate) = (trace?.parent, trace?.state)
                    return (index, await HandlerVerdict.of(handler, message, context))
                }
            }
            var verdicts = data.map { _ in HandlerVerdict.cancelled }
            for await (index, verdict) in tasks { verdicts[index] = verdict }
            return verdicts
        }
    }

    /// Has a call under way, so that what is given meanwhile goes into one call after it, but for those that go `alone` at once.
    func together(_ data: [String], alone: Int = 0) async throws -> [HandlerVerdict] {
        let gate = notes.folder.appending(path: "gate").path
        mkfifo(gate, 0o600)
        let before = notes.times("wait")
        async let first = run([#"{"do":"wait"}"#])
        try await waitUntil { notes.times("wait") > before }
        async let others = run(data)
        // All of them have been given when the queue holds them.
        try await waitUntil { handler.waiting >= data.count - alone }
        let descriptor = open(gate, O_WRONLY)
        close(descriptor)
        #expect(await first == [.done])
        return await others
    }
}

/// What a failure is counted under; of another verdict, what it is.
func group(_ verdict: HandlerVerdict?) -> String {
    verdict?.failure?.group ?? "\(String(describing: verdict))"
}
