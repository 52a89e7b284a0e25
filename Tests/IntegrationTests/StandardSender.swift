import Foundation
import IntegrationSupport
import Synchronization

/// `Tests/Tools/xmpp_sender.py`: an account of the server that sends upstream messages and hears their acks.
final class StandardSender: Sendable {
    private let process: ServerProcess
    private let log: URL
    /// Whom it writes to.
    let address: String
    private let said = Mutex(Events())

    private init(process: ServerProcess, log: URL, address: String) {
        self.process = process
        self.log = log
        self.address = address
    }

    /// Starts it and waits until it is signed in.
    ///
    /// It writes to the worker's account unless another address is given.
    static func start(
        _ server: StandardServer,
        as account: String = StandardServer.peer,
        to address: String = "\(StandardServer.worker)@\(StandardServer.domain)"
    ) async throws -> StandardSender {
        let log = server.scratch.url.appending(path: "sender-\(UInt32.random(in: 0...UInt32.max)).out")
        let process = try ServerProcess(
            [
                TestTools.python(), TestTools.path("xmpp_sender.py"), String(server.ports.direct),
                server.authorityFile, "\(account)@\(StandardServer.domain)", address,
            ],
            log: log.path
        )
        let sender = StandardSender(process: process, log: log, address: address)
        try process.write("\(StandardServer.secret)\n")
        try await waitUntil("the sender is signed in") {
            guard process.isRunning else { throw WaitedTooLong(description: "the sender has ended: \(sender.text)") }
            return sender.events("ready").count == 1
        }
        return sender
    }

    /// Sends messages with these ids.
    func send(_ ids: some Sequence<String>) throws {
        for id in ids {
            try process.write(
                #"{"message_id":"\#(id)","from":"FAKE-token","category":"com.example","data":{"n":"\#(id)"}}"# + "\n"
            )
        }
    }

    /// Sends messages m1, m2 … by and by, so many a second; ``isLoaded`` once it has.
    func load(_ count: Int, rate: Int) throws { try process.write(#"{"load":\#(count),"rate":\#(rate)}"# + "\n") }

    var isLoaded: Bool { !events("loaded").isEmpty }

    /// Sends a chat message with this content, as XML.
    func send(content: String) throws {
        try send(stanza: "<message to='\(address)' type='chat'><body>x</body>\(content)</message>")
    }

    /// Sends a stanza as it is.
    func send(stanza: String) throws {
        try process.write(String(decoding: JSONEncoder().encode(["raw": stanza]), as: UTF8.self) + "\n")
    }

    private var text: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    /// What it has said so far, read once.
    private struct Events {
        var ids: [String: [String]] = [:]
        /// The ids of acks by the address that they came from.
        var acks: [String: Set<String>] = [:]
        var offset: UInt64 = 0
        var rest: [UInt8] = []
    }

    private func events(_ kind: String) -> [String] {
        said.withLock { said in
            guard let file = try? FileHandle(forReadingFrom: log), (try? file.seek(toOffset: said.offset)) != nil,
                let new = try? file.readToEnd()
            else { return said.ids[kind] ?? [] }
            said.offset += UInt64(new.count)
            var lines = (said.rest + new).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            said.rest = Array(lines.removeLast())
            for line in lines {
                let object = try? JSONSerialization.jsonObject(with: Data(line)) as? [String: Any]
                guard let event = object?["event"] as? String else { continue }
                let id = object?["id"] as? String ?? ""
                said.ids[event, default: []].append(id)
                if event == "ack", let from = object?["from"] as? String { said.acks[from, default: []].insert(id) }
            }
            return said.ids[kind] ?? []
        }
    }

    /// The ids of the acks so far, in their order.
    var acks: [String] { events("ack") }

    /// The ids of the acks from this address.
    func acks(from address: String) -> Set<String> {
        _ = acks
        return said.withLock { $0.acks[address] ?? [] }
    }

    /// The ids of what came back as an error.
    var errors: [String] { events("error") }

    /// Whether it is there still: it ends with its stream.
    var isRunning: Bool { process.isRunning }

    /// Ends it, without a word to the server.
    func stop() async throws { try await process.stop() }
}
