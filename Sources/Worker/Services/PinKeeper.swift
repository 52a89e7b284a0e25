import Logging
import MessageStore
import Postgres
import Telemetry
import Vocabulary
import XMPP
import XMPPSession

/// Keeps the senders' pins of channel binding in the database, so that a later process, and every other worker, knows them.
struct PinKeeper: Sendable {
    private let database: PostgresSettings
    private let logger: Logger
    private let pins: [(sender: String, domain: String, pin: BindingPin)]

    init(_ parts: WorkerParts) {
        (database, logger) = (parts.database, parts.logger)
        pins = parts.senders.compactMap { settings in
            settings.pin.map { (settings.stream.senderID, settings.stream.domain, $0) }
        }
    }

    /// Reads the pins before the first stream, waiting while the database is away.
    func load() async {
        while !pins.isEmpty, !Task.isCancelled {
            if let connection = try? await PostgresConnection.open(database) {
                let isDone = await connection.run { connection in exchange(connection) }
                await connection.close()
                if isDone { return }
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Writes new pins, and reads all; returns whether it could, or never may.
    @discardableResult
    func exchange(_ connection: isolated PostgresConnection) -> Bool {
        guard !pins.isEmpty else { return true }
        do throws(PostgresError) {
            for (sender, domain, pin) in pins {
                guard let kind = pin.fresh else { continue }
                try BindingPins.add(connection, sender, domain, kind.rawValue)
            }
            let kept = try BindingPins.list(connection)
            for (sender, domain, pin) in pins {
                pin.read(isKept: kept.contains { $0.senderID == sender && $0.domain == domain })
            }
            return true
        } catch {
            let fields: LogFields = [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.description)]
            logger.event(.debug, .pinUnkept, "cannot keep pins of channel binding in the database; retrying", fields)
            return error.failureClass == .permission || error.failureClass == .schema
        }
    }
}
