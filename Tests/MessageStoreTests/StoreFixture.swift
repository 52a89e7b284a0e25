import Foundation
import LocalDatabase
import MessageStore
import Pipeline
import Postgres
import Testing
import UpstreamKit
import Vocabulary

/// One cluster for the whole suite, a database of its own for each test.
enum SharedCluster {
    static let cluster: LocalCluster = {
        var options = LocalCluster.Options()
        options.fsync = false
        options.isTemporary = true
        let folder = URL(filePath: "/tmp/upstream-store-tests-\(getpid())")
        do {
            return try LocalCluster.start(in: folder, options)
        } catch {
            fatalError("\(error)")
        }
    }()
}

/// A migrated database and a connection to look into it.
struct StoreFixture {
    let url: String
    let settings: PostgresSettings
    let admin: PostgresConnection

    static let senders = ["1234567890", "987"]

    init(migrated: Bool = true, on cluster: LocalCluster = SharedCluster.cluster) async throws {
        let name = "t\(UInt64.random(in: 0...UInt64.max))"
        let root = try await PostgresConnection.open(PostgresSettings(url: cluster.url))
        try await root.run { connection throws(PostgresError) in try connection.script("CREATE DATABASE \(name)") }
        await root.run { connection in connection.close() }
        url = cluster.url.replacingOccurrences(of: "/upstream?", with: "/\(name)?")
        settings = try PostgresSettings(url: url)
        admin = try await PostgresConnection.open(settings)
        if migrated { _ = try await Migrator().up(admin) }
    }

    func store() -> MessageStore { MessageStore(settings, senders: StoreFixture.senders) }

    func script(_ sql: String) async throws {
        try await admin.run { connection throws(PostgresError) in try connection.script(sql) }
    }

    func count(_ table: String) async throws -> Int64? {
        try await integer("SELECT count(*) FROM upstream.\(table)")
    }

    /// Waits for a query to give true.
    func waitUntil(_ sql: String) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline {
            let holds = try await admin.run { connection throws(PostgresError) in
                try connection.query(sql).bool(0, 0) ?? false
            }
            if holds { return }
            await Task.yield()
        }
        throw WaitedTooLong(condition: sql)
    }

    struct WaitedTooLong: Error {
        var condition: String
    }

    func integer(_ sql: String) async throws -> Int64? {
        try await admin.run { connection throws(PostgresError) in try connection.query(sql).integer(0, 0) }
    }

    func text(_ sql: String) async throws -> String? {
        try await admin.run { connection throws(PostgresError) in try connection.query(sql).text(0, 0) }
    }
}

extension IncomingMessage {
    /// The same message as another delivered copy.
    func copy(receivedAt: Int64? = nil, fingerprint: UInt64? = nil) -> IncomingMessage {
        var copy = self
        copy.receivedAt = receivedAt ?? self.receivedAt + 1
        if let fingerprint { copy.fingerprint = Digest128(high: 0, low: fingerprint) }
        return copy
    }

    /// A copy as the codec makes it: one block of bytes and spans into it.
    static func make(
        _ number: UInt64,
        data: String? = #"{"a":1}"#,
        form: DataForm = .json,
        id: String? = nil,
        token: String = "token-SECRET",
        fingerprint: UInt64 = 1,
        receivedAt: Int64 = now(),
        quarantine: QuarantineReason? = nil,
        category: String = "com.example.orders"
    ) -> IncomingMessage {
        var bytes: [UInt8] = []
        func add(_ text: String) -> ByteSpan {
            let start = bytes.count
            bytes += text.utf8
            return ByteSpan(start: start, count: bytes.count - start)
        }
        let stanza = add("<message>\(number) \(data ?? "")</message>")
        let spans = (add(id ?? "m-\(number)"), add(token), add(category), data.map(add))
        var message = IncomingMessage(kind: .upstream, bytes: bytes, stanza: stanza)
        (message.messageID, message.registrationToken, message.category, message.data) = spans
        message.dataForm = data == nil ? .absent : form
        message.messageKey = Digest128(high: number &* 0x9E37_79B9_7F4A_7C15, low: number)
        message.fingerprint = Digest128(high: 0, low: fingerprint)
        message.deviceKey = Digest128(high: 7, low: 7)
        message.quarantine = quarantine
        message.receivedAt = receivedAt
        return message
    }

    static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000_000) }
}
