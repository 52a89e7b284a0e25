import CCSEmulator
import Foundation
import IntegrationSupport
import LocalDatabase

/// One worker with its peer and its way to the servers.
///
/// Used by one task.
final class Way {
    /// The name of its database and of itself.
    let name: String
    let peer: Peer
    private let url: String
    private let folder: TemporaryFolder
    private(set) var worker: ChildWorker
    /// How many messages were sent and acked in all rounds so far.
    var messages = 0
    /// How many of the peer's connections were reset under load.
    var resets = 0
    private var givenUpBefore = 0
    /// Whether it takes no further part, since nothing could get it going again.
    private(set) var isOut = false

    /// Starts peer and worker.
    ///
    /// - Parameters:
    ///   - name: The database.
    ///   - hosts: The URL's list of hosts.
    /// - Throws: Where one of them can't be started.
    init(_ name: String, hosts: String) async throws {
        self.name = name
        peer = try await Peer()
        folder = try TemporaryFolder()
        url = "postgresql://upstream@\(hosts)/\(name)?sslmode=disable&gssencmode=disable"
        worker = try ChildWorker(yaml: try Self.yaml(url, peer, folder), in: folder)
    }

    /// The configuration of a worker between this peer and this database.
    static func yaml(_ url: String, _ peer: Peer, _ folder: TemporaryFolder, connections: Int = 4) throws -> String {
        let secret = try folder.write(Peer.secret.utf8, as: "server-key")
        let authority = try folder.write(peer.emulator.authorityPEM ?? [], as: "ca.pem")
        return """
            database:
              url: "\(url)"
            senders:
              - sender_id: "\(Peer.sender)"
                host: 127.0.0.1
                port: \(peer.emulator.port)
                domain: gcm.googleapis.com
                connections: \(connections)
                secret_file: \(secret)
                tls: {ca_file: \(authority)}
            admin: {listen: "127.0.0.1:0"}
            log: {level: debug, format: json}

            """
    }

    /// Puts another worker in the place of one that is stuck.
    func replaceWorker() throws {
        worker.send(SIGKILL)
        worker = try ChildWorker(yaml: try Self.yaml(url, peer, folder), in: folder)
    }

    /// Takes it out of what follows.
    func giveUp() {
        worker.send(SIGKILL)
        isOut = true
    }

    /// Ends the worker in order and gives its exit code.
    func stop() async throws -> Int32 {
        worker.send(SIGTERM)
        return try await worker.exitCode()
    }

    /// The last lines that are of interest after a failure.
    func lastWords() -> String {
        let lines = (try? worker.logText().split(separator: "\n")) ?? []
        return lines.filter { $0.contains("database") || $0.contains("reconnect") }.suffix(20).joined(separator: "\n")
    }

    /// From now on only what its worker gives up is counted.
    func noteGivenUp() { givenUpBefore = givenUp }

    /// Whether its worker has given up a statement since then because nobody seemed to work on it.
    var hasGivenUp: Bool { givenUp > givenUpBefore }

    private var givenUp: Int {
        let lines = (try? worker.logText().split(separator: "\n")) ?? []
        return lines.count { $0.contains("nobody there works on the statement") }
    }

    /// Reads what `cluster` holds under ids that begin with `prefix`.
    func holding(of cluster: LocalCluster, _ prefix: String) async throws -> Holding {
        try await Holding.read(at: cluster.url(name), prefix)
    }
}
