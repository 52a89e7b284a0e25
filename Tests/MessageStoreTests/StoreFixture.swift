import DatabaseSupport
import Foundation
import LocalDatabase
import MessageStore
import Postgres
import Vocabulary

/// One cluster for the whole suite, a database of its own for each test.
enum SharedCluster {
    static let cluster = LocalCluster.forTests("store")
}

/// A test's database, and writers of messages.
struct StoreFixture {
    static let senders = ["1234567890", "987"]

    private let database: TestDatabase

    init(migrated: Bool = true, on cluster: LocalCluster = SharedCluster.cluster) async throws {
        database = try await TestDatabase(on: cluster, migrated: migrated)
    }

    var url: String { database.url }
    var settings: PostgresSettings { database.settings }
    var admin: PostgresConnection { database.admin }

    func store() -> MessageStore { MessageStore(settings, senders: StoreFixture.senders) }

    func script(_ sql: String) async throws { try await database.script(sql) }

    func integer(_ sql: String) async throws -> Int64? { try await database.integer(sql) }

    func text(_ sql: String) async throws -> String? { try await database.text(sql) }

    func count(_ table: String) async throws -> Int64? {
        try await integer("SELECT count(*) FROM upstream.\(table)")
    }

    /// Gives sessions from now on another default.
    func setDefault(_ parameter: String, _ value: String) async throws {
        let database = url.split(separator: "/")[1].prefix { $0 != "?" }
        try await script("ALTER DATABASE \(database) SET \(parameter) = '\(value)'")
    }

    /// Waits for a query to give true.
    func waitUntil(_ sql: String) async throws { try await database.waitUntil(sql) }
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
        // At any rate not of the sender and the id alone.
        message.isKeyedByDevice = true
        message.fingerprint = Digest128(high: 0, low: fingerprint)
        message.deviceKey = Digest128(high: 7, low: 7)
        message.quarantine = quarantine
        message.receivedAt = receivedAt
        return message
    }

    /// Messages of so many devices in turn; a number is also the order of arrival.
    static func make(_ numbers: ClosedRange<UInt64>, ofDevices devices: UInt64) -> [IncomingMessage] {
        let start = now()
        return numbers.map { number in
            var message = make(number, receivedAt: start + Int64(number))
            message.deviceKey = Digest128(high: number % devices, low: 5)
            return message
        }
    }

    static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000_000) }
}

extension AuditAuthor {
    /// Who acts in the tests.
    static let tester = tester(nil)

    /// The same, with a reason.
    static func tester(_ reason: String?) -> AuditAuthor { AuditAuthor("tester@test", via: .command, reason: reason) }
}
