import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// Handlers with prefixes and conditions on `data`.
    @Suite struct HandlerFilterTests {
        private static let functions = """
            CREATE SCHEMA app;
            CREATE TABLE app.taken (handler text, message_id text);
            CREATE FUNCTION app.take_large(message upstream.messages) RETURNS void LANGUAGE sql AS
            $$ INSERT INTO app.taken VALUES ('large', message.message_id) $$;
            CREATE FUNCTION app.take_prefix(message upstream.messages) RETURNS void LANGUAGE sql AS
            $$ INSERT INTO app.taken VALUES ('prefix', message.message_id) $$
            """
        private static let handlers = """
            - {name: large, categories: ["com.example.*"], where: ["data.total>=100", "data.kind!=test"], sql: {function: app.take_large}}
            - {name: prefix, categories: ["com.example.*", "com.example.orders"], sql: {function: app.take_prefix}}
            - {name: all, categories: ["*"], where: ["data.total exists"], log: {}}
            """
        private static let data = [
            #"{"total":100.00}"#, #"{"total":99}"#, #"{"total":"100"}"#, #"{"total":1e400,"kind":"real"}"#,
            #"{"total":500,"kind":"test"}"#, #"{"total":"\u0000"}"#,
            #"{"total":1,"total":1000000000000000000000000000000}"#,
            "null", "[]", #""total""#,
        ]

        @Test("a handler gets what its prefix and conditions name, whoever receives", arguments: [false, true])
        func delivered(isSplit: Bool) async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 0)
            } _: { stage in
                try await stage.database.script(Self.functions)
                var options = WorkerOptions()
                options.handlers = Self.handlers
                let yaml = try stage.yaml(options)
                var workers = [try ChildWorker(yaml: yaml, in: stage.folder, isSplit ? ["--roles", "dispatch"] : [])]
                try await waitUntil("the handlers are subscribed") {
                    try await stage.database.count("subscriptions") == 4
                }
                if isSplit {
                    // What the receiver's own configuration says of handlers is nothing to it.
                    options.handlers = ""
                    workers.append(
                        try ChildWorker(yaml: try stage.yaml(options), in: stage.folder, ["--roles", "receive"])
                    )
                }
                try await stage.send(data: Self.data, category: "com.example.orders", idPrefix: "a")
                try await stage.send(data: Self.data, category: "com.example", idPrefix: "b")
                try await stage.send(data: [#"{"total":7000}"#], category: "com.example.a.b", idPrefix: "c")
                let count = 2 * Self.data.count + 1
                try await stage.database.waitUntilHandled(count)
                func taken(_ handler: String) async throws -> String {
                    let list =
                        "SELECT string_agg(message_id, ' ' ORDER BY message_id) FROM app.taken WHERE handler = '\(handler)'"
                    return try await stage.database.texts(list).first ?? ""
                }
                #expect(try await taken("large") == "a-0 a-3 a-6 c-0")
                #expect(try await taken("prefix") == "a-0 a-1 a-2 a-3 a-4 a-5 a-6 a-7 a-8 a-9 c-0")
                #expect(try await stage.database.count("quarantine") == 0)
                #expect(try await stage.database.count("dead_letters") == 0)
                let tried = "SELECT count(*) FROM upstream.attempts WHERE handler = 'all'"
                #expect(try await stage.database.integer(tried) == 13, "six of ten twice, and one")
                if !isSplit {
                    let page = try await workers[0].scrape()
                    let stored = page.sum("upstream_messages_total", #"category="com.example.*""#, #"outcome="stored""#)
                    let named = page.sum(
                        "upstream_messages_total",
                        #"category="com.example.orders""#,
                        #"outcome="stored""#
                    )
                    #expect(stored == 1 && Int(named) == Self.data.count)
                }
                for worker in workers {
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
            }
        }

        @Test(
            "a regular expression that the database refuses ends a worker with 78 and the key, unless others dispatch"
        )
        func refused() async throws {
            try await Stage.run { stage in
                var options = WorkerOptions()
                options.handlers = """
                    - {name: good, categories: ["*"], where: ["data.a~^x"], log: {}}
                    - {name: bad, categories: ["*"], where: ["data.a~x(FAKE"], log: {}}
                    """
                let yaml = try stage.yaml(options)
                let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                #expect(try await worker.exitCode() == 78)
                let log = try worker.logText()
                #expect(log.contains("handlers.1.where: invalid regular expression"), "\(log)")
                #expect(!log.contains("handlers.0") && !log.contains("FAKE"), "\(log)")
                #expect(try await stage.database.count("handler_workers") == 0)
                let receiver = try ChildWorker(yaml: yaml, in: stage.folder, ["--roles", "receive"])
                try await receiver.waitForEvent("stream.bound")
                receiver.send(SIGTERM)
                #expect(try await receiver.exitCode() == 0)
            }
        }
    }
}
