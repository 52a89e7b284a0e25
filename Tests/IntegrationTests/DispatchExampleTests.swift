import DatabaseSupport
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// What the documentation and `Examples/` show, as they stand there.
    @Suite struct DispatchExampleTests {
        /// A worker of one's own.
        private func example(_ name: String) throws -> URL {
            let program = projectFolder.appending(path: ".build/debug/example-\(name)")
            try #require(FileManager.default.isExecutableFile(atPath: program.path), "build it: make build")
            return program
        }

        private func text(_ path: String) throws -> String {
            try String(contentsOf: projectFolder.appending(path: path), encoding: .utf8)
        }

        @Test("Examples/swift: a worker of one's own takes, retries and rejects")
        func swiftPackage() async throws {
            try await Stage.run { stage in
                let program = try example("orders-worker")
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder, program: program)
                try await stage.send(data: [
                    #"{"item":"tea","quantity":2}"#, #"{"item":"tea","quantity":0}"#, #"{"item":7}"#,
                    #"{"item":"tea","quantity":3}"#,
                ])
                try await stage.database.waitUntilHandled(4)
                try await waitUntil("two are done") { try await worker.deliveries("orders", "done") == 2 }
                #expect(
                    try await stage.database.deadLetters() == [
                        "orders|1|an order needs a quantity above zero",
                        "orders|1|the message s data does not read as Order at item",
                    ]
                )
                try await stage.send(data: [#"{"item":"coffee","quantity":1}"#], idPrefix: "retried")
                try await waitUntil("it is tried again") { try await worker.deliveries("orders", "retry") >= 2 }
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("Examples/exec, as a process of the worker")
        func execProgram() async throws {
            try await Stage.run { stage in
                let script = projectFolder.appending(path: "Examples/exec/orders.py").path
                let handlers = """
                    - {name: orders, categories: ["com.example.orders"], exec: {command: ["/usr/bin/python3", "\(script)"]}}
                    """
                try await check(stage, handlers, dead: "orders|1|an order needs an item") { worker async throws in
                    #expect(try worker.events("handler.output").count == 1)
                }
            }
        }

        @Test("Examples/sql, with the rights of the worker's role")
        func sqlFunction() async throws {
            try await Stage.run { stage in
                try await stage.database.script(try DeployedRoles.script())
                try await stage.database.script(try text("Examples/sql/orders.sql"))
                let handlers = """
                    - {name: orders, categories: ["com.example.orders"], sql: {function: app.take_order}}
                    """
                try await check(stage, handlers, dead: "orders|1|an order needs an item") { _ async throws in
                    #expect(try await stage.database.texts("SELECT item || quantity FROM app.orders") == ["tea2"])
                }
            }
        }

        @Test("Examples/webhook, with the secret and the addresses of this machine")
        func webhookReceiver() async throws {
            try await Stage.run { stage in
                let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                let port = try Socket.freePort()
                let receiver = try Helper(
                    try TestTools.python(),
                    [projectFolder.appending(path: "Examples/webhook/receiver.py").path, "\(port)", secret]
                )
                try await Helper.waitUntilListening(on: port)
                let file = try stage.folder.write(secret.utf8, as: "orders.secret")
                let handlers = """
                    - name: orders
                      categories: ["com.example.orders"]
                      webhook: {url: "http://127.0.0.1:\(port)/", secret_file: \(file), allow_networks: ["127.0.0.0/8"]}
                    """
                try await check(stage, handlers, dead: nil) { _ in _ = receiver }
            }
        }

        // MARK: Pages

        private static let pages = ["docs/handlers.md"]

        @Test("the pages' handler of kind sql, and its function over arrays", arguments: pages, [1, 2])
        func sqlOnThePage(_ page: String, _ number: Int) async throws {
            let section = try PageSection("sql", of: try text(page))
            try await Stage.run { stage in
                try await stage.database.script(
                    "CREATE SCHEMA app; CREATE TABLE app.orders (key uuid PRIMARY KEY, item text)"
                )
                try await stage.database.script(try section.block("sql", number))
                let function = ["app.take_order", "app.take_orders"][number - 1]
                let handlers = try section.handlers().replacing("app.take_order", with: function)
                try await check(stage, handlers, dead: "orders|1|an order needs an item") {
                    _ async throws in
                    #expect(try await stage.database.texts("SELECT item FROM app.orders") == ["tea"])
                }
            }
        }

        @Test("the pages' handler of kind exec", arguments: pages)
        func execOnThePage(_ page: String) async throws {
            let section = try PageSection("exec", of: try text(page))
            try await Stage.run { stage in
                let script = try stage.folder.write(try section.block("python").utf8, as: "orders.py")
                let handlers = try section.handlers().replacing("/usr/lib/orders/orders.py", with: script)
                try await check(stage, handlers, dead: nil) { _ in }
            }
        }

        @Test("the pages' handler of kind webhook", arguments: pages)
        func webhookOnThePage(_ page: String) async throws {
            let section = try PageSection("webhook", of: try text(page))
            try await Stage.run { stage in
                let port = try Socket.freePort()
                let secret = try stage.folder.write("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8, as: "orders")
                let program = try section.block("python").replacing("8080", with: "\(port)")
                    .replacing("/run/secrets/orders", with: secret)
                let script = try stage.folder.write(program.utf8, as: "receiver.py")
                let receiver = try Helper(try TestTools.python(), [script])
                try await Helper.waitUntilListening(on: port)
                let handlers = try section.handlers().replacing("/run/secrets/orders", with: secret)
                    .replacing("https://orders.example.com/upstream", with: "http://127.0.0.1:\(port)/")
                    .replacing("webhook: {", with: #"webhook: {allow_networks: ["127.0.0.0/8"], "#)
                try await check(stage, handlers, dead: nil) { _ in _ = receiver }
            }
        }

        @Test("the pages' handler of kind log", arguments: pages)
        func logOnThePage(_ page: String) async throws {
            let section = try PageSection("log", of: try text(page))
            try await Stage.run { stage in
                try await check(stage, try section.handlers(), name: "everything", dead: nil) { worker async throws in
                    #expect(try worker.events("handler.message").count == 2)
                }
            }
        }

        @Test("the pages' worker with a handler in Swift", arguments: pages)
        func swiftOnThePage(_ page: String) async throws {
            let source = try text("Examples/swift/Sources/shortest-worker/ShortestWorker.swift")
            #expect(
                try PageSection("Swift", of: try text(page)).block("swift") == source,
                "what is built is what is shown"
            )
            try await Stage.run { stage in
                let worker = try ChildWorker(
                    yaml: try stage.yaml(WorkerOptions()),
                    in: stage.folder,
                    program: try example("shortest-worker")
                )
                try await stage.send(data: [#"{"item":"tea","quantity":2}"#, #"{"item":"tea","quantity":0}"#])
                try await stage.database.waitUntilHandled(2)
                try await waitUntil("one is done") { try await worker.deliveries("orders", "done") == 1 }
                let dead = try await stage.database.deadLetters()
                #expect(dead == ["orders|1|an order needs a quantity above zero"])
            }
        }

        /// Sends a good order and one without an item to a worker with this handler.
        private func check(
            _ stage: Stage,
            _ handlers: String,
            name: String = "orders",
            dead: String?,
            _ body: (ChildWorker) async throws -> Void
        ) async throws {
            var options = WorkerOptions()
            options.handlers = handlers
            let worker = try ChildWorker(yaml: try stage.yaml(options), in: stage.folder)
            try await stage.send(data: [#"{"item":"tea","quantity":2}"#, "{}"])
            try await stage.database.waitUntilHandled(2)
            let done = dead == nil ? 2 : 1
            #expect(try await stage.database.deadLetters() == (dead.map { [$0] } ?? []))
            try await waitUntil("\(done) are done") { try await worker.deliveries(name, "done") == done }
            worker.send(SIGTERM)
            let (code, printed) = (try await worker.exitCode(), try worker.logText())
            #expect(code == 0, "\(printed.suffix(2_000))")
            try await body(worker)
        }
    }
}
