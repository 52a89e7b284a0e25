import Dispatcher
package import Postgres
package import UpstreamKit
package import Vocabulary

struct Claimed: Sendable {
    var deliveries: [Delivery] = []
    /// The place of the last delivery.
    var last: ClaimPlace?
    var surroundings: ClaimSurroundings

    /// Reads the rows of the leasing statements in ``ClaimStatements``.
    ///
    /// - Throws: ``PostgresError`` of class `schema`: a lease without its fencing token must not begin.
    init(_ result: PostgresResult, _ deadline: ContinuousClock.Instant) throws(PostgresError) {
        var deliveries: [Delivery] = []
        deliveries.reserveCapacity(result.count)
        var last: ClaimPlace?
        surroundings = try ClaimSurroundings(result) { row throws(PostgresError) in
            guard let key = try row.next(Digest128?.self) else { return row.skip(14) }
            let receivedAt = try row.next(Timestamp.self)
            last = ClaimPlace(nextAttemptAt: try row.next(), receivedAt: receivedAt, key: key)
            let token = try row.next(Int64.self)
            let attempts = try row.next(Int.self)
            let crashes = try row.next(Int.self)
            let replayID = try row.next(String?.self)
            let message = try UpstreamMessage(&row, key, receivedAt)
            deliveries.append(
                Delivery(
                    content: message.map { .stored($0) } ?? .missing,
                    messageKey: key,
                    attempts: attempts,
                    crashes: crashes,
                    replayID: replayID,
                    lease: Lease(token: token, deadline: deadline)
                )
            )
        }
        self.deliveries = deliveries
        self.last = last
    }
}

extension UpstreamMessage {
    /// Reads a stored message on its way to a handler: `message_id`, `sender_id`, `category`, `registration_token`,
    /// `device_key`, the data, `extra`, `message_type`; nil if retention has deleted it.
    package init?(
        _ row: inout PostgresRow,
        _ key: Digest128,
        _ receivedAt: Timestamp
    ) throws(PostgresError) {
        guard let messageID = try row.next(String?.self) else {
            row.skip(7)
            return nil
        }
        self.init(
            messageKey: MessageKey(key),
            messageID: messageID,
            senderID: try row.next(),
            category: try row.next(),
            registrationToken: RegistrationToken(try row.next()),
            deviceKey: DeviceKey(try row.next()),
            data: try row.next(JSONColumn?.self)?.utf8,
            extra: try row.next(JSONColumn?.self)?.utf8,
            messageType: try row.next(),
            receivedAtMicroseconds: receivedAt.microseconds
        )
    }
}

struct DueDevices: Sendable {
    var devices: [Digest128] = []
    /// The place of the last delivery.
    var last: ClaimPlace?
    var surroundings: ClaimSurroundings

    /// Reads the rows of ``ClaimStatements/due``.
    ///
    /// - Throws: ``PostgresError`` of class `schema`.
    init(_ result: PostgresResult) throws(PostgresError) {
        var devices: [Digest128] = []
        var last: ClaimPlace?
        surroundings = try ClaimSurroundings(result) { row throws(PostgresError) in
            guard let device = try row.next(Digest128?.self) else { return row.skip(3) }
            devices.append(device)
            last = ClaimPlace(nextAttemptAt: try row.next(), receivedAt: try row.next(), key: try row.next())
        }
        self.devices = devices
        self.last = last
    }
}

extension ClaimSurroundings {
    /// Reads every row: its own columns by `body`, then the surroundings at its end, once.
    fileprivate init(
        _ result: PostgresResult,
        _ body: (inout PostgresRow) throws(PostgresError) -> Void
    ) throws(PostgresError) {
        var found: ClaimSurroundings?
        try result.eachRow { row throws(PostgresError) in
            try body(&row)
            if found == nil {
                found = ClaimSurroundings(now: try row.next(), entries: try row.next(), isPaused: try row.next())
            } else {
                row.skip(3)
            }
        }
        guard let found else { throw PostgresError(.schema, "a claim returned no row") }
        self = found
    }
}
