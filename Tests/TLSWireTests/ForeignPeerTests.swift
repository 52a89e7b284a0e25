import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import TLSWire

/// `openssl s_server`, a peer that shares no line with ours.
final class ForeignServer: Sendable {
    private let process: Process
    private let input: Pipe
    private let folder: URL
    private struct Output: Sendable {
        var text = ""
        var waiters: [(words: String, promise: EventLoopPromise<Void>)] = []
    }

    private let loop = loops.next()
    /// What the server has printed, and who waits for it.
    private let output: NIOLoopBoundBox<Output>
    let port: Int

    init(_ arguments: [String]) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let identity = try authority.get().issue(CertificateRequest(dnsNames: ["localhost"]))
        let certificate = folder.appending(path: "chain.pem")
        let key = folder.appending(path: "key.pem")
        try Data(identity.chainPEM).write(to: certificate)
        try Data(identity.keyPEM).write(to: key)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/openssl")
        process.arguments =
            ["s_server", "-accept", "127.0.0.1:0", "-cert", certificate.path, "-key", key.path, "-naccept", "1"]
            + arguments
        let input = Pipe()
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
        var text = ""
        while !text.contains("\n") || !text.contains("ACCEPT 127.0.0.1:") || text.last != "\n" {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw Deadline(description: "s_server: \(text)") }
            text += String(decoding: more, as: UTF8.self)
        }
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("ACCEPT") })
        self.port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
        self.process = process
        self.input = input
        self.output = .makeBoxSendingValue(Output(), eventLoop: self.loop)
        self.folder = folder
        output.fileHandleForReading.readabilityHandler = { handle in
            let more = handle.availableData
            if more.isEmpty {
                handle.readabilityHandler = nil
            }
            self.printed(String(decoding: more, as: UTF8.self))
        }
    }

    private func printed(_ text: String) {
        self.loop.execute {
            self.output.value.text += text
            let now = self.output.value.text
            for waiter in self.output.value.waiters where now.contains(waiter.words) { waiter.promise.succeed() }
            self.output.value.waiters.removeAll { now.contains($0.words) }
        }
    }

    /// Types a line at the server's terminal.
    func type(_ line: String) throws {
        try self.input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Waits until the server has printed `words`, for ten seconds at most.
    func wait(for words: String) async throws {
        let promise = self.loop.makePromise(of: Void.self)
        self.loop.execute {
            if self.output.value.text.contains(words) {
                promise.succeed()
            } else {
                self.output.value.waiters.append((words, promise))
            }
        }
        let timer = self.loop.scheduleTask(in: .seconds(10)) {
            promise.fail(Deadline(description: "the server did not print \(words): \(self.output.value.text)"))
        }
        try await promise.futureResult.get()
        timer.cancel()
    }

    /// Ends the server for certain: the process may have inherited a mask that blocks SIGTERM.
    func stop() {
        if self.process.isRunning { self.kill() }
        self.process.waitUntilExit()
        try? FileManager.default.removeItem(at: self.folder)
    }

    /// Ends at once, without a word of TLS.
    func kill() {
        Foundation.kill(self.process.processIdentifier, SIGKILL)
    }
}

@Suite(.timeLimit(.minutes(5)), .serialized) struct ForeignPeerTests {
    @Test(
        "Data both ways and a clean end",
        arguments: [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")]
    )
    func conversation(_ option: String, _ version: String) async throws {
        let server = try ForeignServer([option])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        guard case .established(let spoken, _) = connected.recorder.seen.established.first else { return }
        #expect(spoken == version)
        try await connected.send("from the client\n")
        try await server.wait(for: "from the client")
        try server.type("from the server")
        try await connected.wait("a line") { $0.bytes == Array("from the server\n".utf8) }
        try await connected.channel.close().get()
        #expect(connected.recorder.seen.errors.isEmpty)
    }

    @Test("The foreign peer's close_notify is a clean end") func cleanEnd() async throws {
        // -rev sends lines back reversed, and ends TLS in order after the line CLOSE.
        let server = try ForeignServer(["-rev"])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        try await connected.send("abc\n")
        try await connected.wait("the answer") { $0.bytes == Array("cba\n".utf8) }
        try await connected.send("CLOSE\n")
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.closedCleanly == 1)
        #expect(connected.recorder.seen.errors.isEmpty)
    }

    @Test("A key update, asked for and answered") func keyUpdate() async throws {
        let server = try ForeignServer(["-tls1_3"])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        for round in 1...3 {
            // K: update its key, and ask for an update of ours.
            try server.type("K")
            // The server reads its terminal before the network, so K is carried out before this is answered for.
            try await connected.send("ping \(round)\n")
            try await server.wait(for: "ping \(round)")
            try server.type("line \(round)")
            try await connected.wait("line \(round)") { $0.bytes.count == round * 7 }
            try await connected.send("answer \(round)\n")
            try await server.wait(for: "answer \(round)")
        }
        #expect(connected.recorder.seen.errors.isEmpty)
        try await connected.channel.close().get()
    }

    @Test("Renegotiation is refused") func renegotiation() async throws {
        let server = try ForeignServer(["-tls1_2"])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        // r: ask for a new handshake.
        try server.type("r")
        try await server.wait(for: "no renegotiation")
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.established.count == 1)
    }

    @Test("A killed server is a truncation") func killed() async throws {
        let server = try ForeignServer([])
        defer { server.stop() }
        let connected = try await Connected.tls(server.port, trusting())
        try await connected.established()
        // The server must have read everything, or the kernel answers with a reset.
        try await connected.send("read this\n")
        try await server.wait(for: "read this")
        server.kill()
        try await connected.wait("the end") { $0.isInactive }
        #expect(connected.recorder.seen.errors.count == 1)
        #expect(connected.recorder.seen.codes == [.truncated])
        #expect(connected.recorder.seen.closedCleanly == 0)
    }
}
