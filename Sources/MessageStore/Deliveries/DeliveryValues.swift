import Pipeline
package import Postgres
import UpstreamKit
package import Vocabulary

extension PostgresParameters {
    /// The five parameters of ``StoreStatements/insert`` that say which deliveries are leased.
    mutating func append(_ offer: LeaseOffer) {
        append(offer.owner)
        append(offer.token)
        append(offer.duration.microseconds)
        offer.handlers.append(to: &self)
        offer.local.append(to: &self)
    }

    /// A `text` or null.
    package mutating func append(optional text: String?) {
        if let text { append(text) } else { appendNull(.text) }
    }

    /// A `timestamptz` or null, in microseconds since 1970-01-01 UTC.
    package mutating func append(optionalTime time: Int64?) {
        if let time { append(timestamp: time) } else { appendNull(.timestamptz) }
    }

    /// A `text[]`.
    package mutating func append(texts: [String]) {
        beginArray(of: .text, count: texts.count)
        for var text in texts { text.withUTF8 { element(UnsafeRawBufferPointer($0)) } }
        endArray()
    }

    /// A `bigint[]`.
    package mutating func append(integers: [Int64]) {
        beginArray(of: .int8, count: integers.count)
        for integer in integers { withUnsafeBytes(of: integer.bigEndian) { element($0) } }
        endArray()
    }

    /// A `uuid[]`.
    package mutating func append(uuids: [Digest128]) {
        beginArray(of: .uuid, count: uuids.count)
        for uuid in uuids { element(uuidHigh: uuid.high, low: uuid.low) }
        endArray()
    }
}

extension PostgresResult {
    /// A value of type `uuid`; nil for null.
    func digest(_ row: Int, _ column: Int) -> Digest128? {
        uuid(row, column).map { Digest128(high: $0.high, low: $0.low) }
    }
}

extension StoreError {
    /// What a failure of PostgreSQL means for the pipeline.
    init(_ error: PostgresError) {
        self.init(
            kind: error.isTimeLimit ? .timedOut : error.isEnvironment ? .unavailable : .refused,
            sqlState: error.sqlState,
            message: error.description,
            failureClass: error.failureClass
        )
    }
}
