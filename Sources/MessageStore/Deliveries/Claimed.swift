import Dispatcher
package import Postgres
package import UpstreamKit
package import Vocabulary

/// What a statement of ``ClaimStatements`` returns: values, and in each row the surroundings at its end.
struct ClaimResult<Value: Sendable>: Sendable {
    let values: [Value]
    /// The places of the last live delivery and of the last replayed one.
    let last: (live: ClaimPlace?, replayed: ClaimPlace?)
    let surroundings: ClaimSurroundings

    /// `decode` reads a row up to the surroundings; nil for the row of a statement that found nothing.
    ///
    /// - Throws: ``PostgresError`` of class `schema`: a lease without its fencing token must not begin.
    private init(
        _ result: PostgresResult,
        _ decode: (inout PostgresRow) throws(PostgresError) -> (value: Value, place: ClaimPlace, isReplayed: Bool)?
    ) throws(PostgresError) {
        var (values, last) = ([Value](), (live: ClaimPlace?.none, replayed: ClaimPlace?.none))
        values.reserveCapacity(result.count)
        var around: ClaimSurroundings?
        for index in 0..<result.count {
            try result.read(index) { row throws(PostgresError) in
                if let (value, place, isReplayed) = try decode(&row) {
                    values.append(value)
                    if isReplayed { last.replayed = place } else { last.live = place }
                }
                guard around == nil else { return row.skip(3) }
                around = ClaimSurroundings(now: try row.next(), entries: try row.next(), isPaused: try row.next())
            }
        }
        guard let around else { throw PostgresError(.schema, "a claim returned no row") }
        (self.values, self.last, surroundings) = (values, last, around)
    }
}

extension ClaimResult<Delivery> {
    /// Reads the rows of the leasing statements.
    init(_ result: PostgresResult, _ deadline: ContinuousClock.Instant) throws(PostgresError) {
        try self.init(result) { row throws(PostgresError) in
            guard let key = try row.next(Digest128?.self) else {
                row.skip(14)
                return nil
            }
            let receivedAt = try row.next(Timestamp.self)
            let place = ClaimPlace(nextAttemptAt: try row.next(), receivedAt: receivedAt, key: key)
            let lease = Lease(token: try row.next(), deadline: deadline)
            let (attempts, crashes): (Int, Int) = (try row.next(), try row.next())
            let replayID = try row.next(String?.self)
            let message = try UpstreamMessage(&row, key, receivedAt)
            let delivery = Delivery(
                content: message.map { .stored($0) } ?? .missing,
                messageKey: key,
                attempts: attempts,
                crashes: crashes,
                replayID: replayID,
                lease: lease
            )
            return (delivery, place, replayID != nil)
        }
    }
}

/// A device with a delivery that is due.
struct DueDevice: Sendable {
    var device: Digest128
    /// Whether a replay queued the delivery.
    var isReplayed: Bool
}

extension ClaimResult<DueDevice> {
    /// Reads the devices of ``ClaimStatements/due``.
    init(devices result: PostgresResult) throws(PostgresError) {
        try self.init(result) { row throws(PostgresError) in
            guard let device = try row.next(Digest128?.self) else {
                row.skip(4)
                return nil
            }
            let isReplayed = try row.next(Bool.self)
            let place = ClaimPlace(nextAttemptAt: try row.next(), receivedAt: try row.next(), key: try row.next())
            return (DueDevice(device: device, isReplayed: isReplayed), place, isReplayed)
        }
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
