import CCSEmulator
import EmulatorSupport
import Foundation
import IntegrationSupport
import Testing

/// The project's own folder.
let projectFolder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

extension Stage {
    /// Lets the emulator send messages, one for each of the texts.
    func send(
        data: [String],
        category: String = "com.example.orders",
        device: String = "FAKE-t",
        idPrefix: String = "m"
    ) async throws {
        try await wait(for: "a bound stream") { !$0.bound.isEmpty }
        for (index, data) in data.enumerated() {
            let id = "\(idPrefix)-\(index)"
            let json = #"{"message_id":"\#(id)","from":"\#(device)","category":"\#(category)","data":\#(data)}"#
            try await emulator.inject(json: json, id: id, to: device)
        }
    }
}

extension Database {
    /// How many deliveries wait or are under way, in rows and in blocks.
    func waitingDeliveries() async throws -> Int {
        try await integer("SELECT upstream.waiting_deliveries('-infinity', 'infinity')")
    }

    /// Waits until so many messages are stored and no delivery is left.
    func waitUntilHandled(_ messages: Int) async throws {
        try await waitUntil("\(messages) messages are stored and handled") {
            let stored = try await count("messages")
            let left = try await waitingDeliveries()
            return stored >= messages && left == 0
        }
    }

    /// The dead letters as `handler|attempts|error_group`, in the messages' order.
    func deadLetters() async throws -> [String] {
        try await texts(
            """
            SELECT handler || '|' || attempts || '|' || error_group
            FROM upstream.dead_letters JOIN upstream.messages USING (message_key, received_at)
            ORDER BY received_at, message_id
            """
        )
    }
}

extension ChildWorker {
    /// How many deliveries of a handler came to this end, as `/metrics` shows it.
    func deliveries(_ handler: String, _ outcome: String) async throws -> Int {
        let page = try await scrape()
        return Int(page.sum("upstream_deliveries_total", "handler=\"\(handler)\"", "outcome=\"\(outcome)\""))
    }
}

/// Some other program, for as long as its owner lives.
final class Helper: @unchecked Sendable {
    // Started once, here, and ended by whoever owns it.
    private let process = Process()
    private let output = Pipe()

    /// Starts it.
    init(_ program: String, _ arguments: [String], in folder: TemporaryFolder? = nil) throws {
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.currentDirectoryURL = folder?.url
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    deinit { if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) } }

    /// Waits until somebody listens on the port.
    static func waitUntilListening(on port: Int) async throws {
        try await waitUntil("something listens on port \(port)") { Socket.canConnect(to: port) }
    }
}

/// Ports of the loopback address.
enum Socket {
    /// One that nobody listens on now.
    static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                guard bind(descriptor, pointer, length) == 0, getsockname(descriptor, pointer, &length) == 0 else {
                    return 0
                }
                return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int($0.pointee.sin_port.bigEndian)
                }
            }
        }
        try #require(port > 0)
        return port
    }

    static func canConnect(to port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = loopback(UInt16(port))
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
