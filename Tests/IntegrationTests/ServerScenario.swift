import Foundation
import IntegrationSupport
import Synchronization
import Telemetry
import Testing

/// What the worker is to a server.
enum Attachment: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case account, component

    var testDescription: String { rawValue }
}

/// One scenario on a standard server: an account for the worker, a device that writes to it, and a database, all of its own.
struct ServerScenario: Sendable {
    let server: StandardServer
    let attachment: Attachment
    /// The worker's account, or the local part that the device writes to at the component.
    let account: String
    let device: StandardSender
    let database: Database

    /// Servers that several scenarios use, one after the other; they end with the tests' process.
    private static let shared = Mutex<[ServerKind: StandardServer]>([:])

    /// Runs a scenario: on the server that all scenarios without wishes share, or else on one of its own.
    static func run(
        _ kind: ServerKind,
        _ options: ServerOptions? = nil,
        as attachment: Attachment = .account,
        ownServer: Bool = false,
        _ body: (ServerScenario) async throws -> Void
    ) async throws {
        let isShared = options == nil && !ownServer
        let server: StandardServer
        if isShared, let running = shared.withLock({ $0[kind] }), running.isRunning {
            server = running
        } else {
            server = try await StandardServer.start(kind, options ?? ServerOptions(verbose: false))
            if isShared { shared.withLock { $0[kind] = server } }
        }
        let account = "w\(UInt32.random(in: 0...UInt32.max))"
        try await server.register(account)
        let address = "\(account)@\(attachment == .account ? StandardServer.domain : StandardServer.component)"
        let device = try await StandardSender.start(server, to: address)
        let scenario = ServerScenario(
            server: server,
            attachment: attachment,
            account: account,
            device: device,
            database: try await Database()
        )
        do {
            try await body(scenario)
        } catch {
            let tail = server.log.split(separator: "\n").suffix(30).joined(separator: "\n")
            FileHandle.standardError.write(Data("\(kind.rawValue)'s last words:\n\(tail)\n".utf8))
            try? await device.stop()
            if !isShared { try? await server.stop() }
            throw error
        }
        try await device.stop()
        if !isShared { try await server.stop() }
    }

    /// A worker's configuration, which trusts the device and nobody else.
    func yaml(
        mode: String = "direct",
        window: Int = 100,
        port: Int? = nil,
        resource: String = "upstream-worker"
    ) throws -> String {
        switch attachment {
        case .account:
            try server.yaml(
                database,
                account: account,
                mode: mode,
                window: window,
                port: port,
                resource: resource
            )
        case .component:
            try server.componentYAML(
                database,
                window: window,
                trusted: "[\"\(StandardServer.peer)@\(StandardServer.domain)\"]"
            )
        }
    }

    /// Runs a worker inside this process for as long as `body` takes, from when the server delivers to it, and ends it in order.
    func withWorker(
        _ yaml: String? = nil,
        waits: Bool = true,
        _ body: (LocalWorker) async throws -> Void
    ) async throws {
        let worker = try LocalWorker(yaml: yaml ?? self.yaml())
        do {
            if waits { try await waitUntilPresent(worker) }
            try await body(worker)
        } catch {
            await worker.abandon()
            FileHandle.standardError.write(Data(worker.logs.lines.suffix(15).joined().utf8))
            throw error
        }
        try await worker.stop()
    }

    /// Waits until the worker's presence has come back to it.
    func waitUntilPresent(_ worker: LocalWorker) async throws {
        try await waitUntil("the worker's presence comes back") {
            worker.isLoggedIn
                && (attachment == .component || worker.metrics.stanzas[.other].value > 0)
        }
    }

    /// Starts a worker as a process, and waits until the server delivers to it.
    func startWorker(_ yaml: String? = nil) async throws -> ChildWorker {
        let worker = try ChildWorker(yaml: yaml ?? self.yaml(), in: server.scratch)
        try await worker.waitForEvent("stream.bound")
        guard attachment == .account else { return worker }
        try await waitUntil("the worker's presence comes back") {
            try await worker.scrape().sum("upstream_stanzas_received_total", "kind=\"other\"") > 0
        }
        return worker
    }

    /// Waits until the device has an ack for each of these.
    ///
    /// ejabberd's own store now and then loses what is written to it during a login (ADR 5), which a device that sends again
    /// what has no ack puts right. So up to `lossLimit` messages that never came are sent once more; one that is stored and
    /// has no ack is the worker's fault, and so is any further loss.
    func waitForAcks(
        _ ids: some Sequence<String>,
        limit: Duration = .seconds(180),
        lossLimit: Int = 0,
        _ location: SourceLocation = #_sourceLocation
    ) async throws {
        let wanted = Set(ids)
        do {
            try await waitUntil("every message is acked", limit: limit) { wanted.isSubset(of: device.acks) }
        } catch {
            let missing = wanted.subtracting(device.acks)
            let stored = missing.intersection(
                try await database.texts("SELECT message_id FROM upstream.messages")
            )
            guard stored.isEmpty, missing.count <= lossLimit else {
                Issue.record(
                    """
                    without an ack after \(limit): \(stored.count) messages that are stored \(stored.sorted().prefix(5)), \
                    \(missing.count - stored.count) that are not, where the server may lose \(lossLimit)
                    """,
                    sourceLocation: location
                )
                throw error
            }
            guard !missing.isEmpty else { return }
            print("\(server.kind.rawValue) lost \(missing.count) of its own: \(missing.sorted())")
            try device.send(missing)
            try await waitForAcks(missing, location)
        }
    }

    /// What a device does: sends again what has no ack after a while, a few messages at a time.
    func resendUntilAcked(_ ids: [String], atOnce count: Int, limit: Duration = .seconds(90)) async throws {
        try await waitUntil("every message is acked", limit: limit) {
            let acked = Set(device.acks)
            let next = ids.filter { !acked.contains($0) }.prefix(count)
            guard !next.isEmpty else { return true }
            try device.send(next)
            try? await waitUntil(limit: .seconds(2)) { Set(next).isSubset(of: device.acks) }
            return false
        }
    }

    /// Expects each of these messages to be stored, and nothing else.
    func expectStored(_ ids: some Sequence<String>, _ location: SourceLocation = #_sourceLocation) async throws {
        let stored = try await database.texts("SELECT message_id FROM upstream.messages ORDER BY 1")
        #expect(stored == ids.sorted(), sourceLocation: location)
    }

    static func ids(_ range: ClosedRange<Int>) -> [String] { range.map { "m\($0)" } }
}
