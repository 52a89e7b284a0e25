package import Postgres
import UpstreamKit
package import Vocabulary

/// The parameters of a statement that is put together from parts.
///
/// Whatever comes from outside goes in here and is named by its number in the text: no value is ever part of the text.
package struct SQLValues: Sendable {
    private enum Value: Sendable {
        case text(String)
        case texts([String])
        case integer(Int64)
        case time(Int64)
        case uuid(Digest128)
    }

    private var values: [Value] = []

    /// No parameters yet.
    package init() {}

    /// Adds a `text` and returns its place, for example `$3`.
    package mutating func bind(_ text: String) -> String { bind(.text(text)) }

    /// Adds a `text[]` and returns its place.
    package mutating func bind(_ texts: [String]) -> String { bind(.texts(texts)) }

    /// Adds an `int8` and returns its place.
    package mutating func bind(_ integer: Int64) -> String { bind(.integer(integer)) }

    /// Adds a `timestamptz`, in microseconds since 1970-01-01 UTC, and returns its place.
    package mutating func bind(time: Int64) -> String { bind(.time(time)) }

    /// Adds a `uuid` and returns its place.
    package mutating func bind(_ uuid: Digest128) -> String { bind(.uuid(uuid)) }

    private mutating func bind(_ value: Value) -> String {
        values.append(value)
        return "$\(values.count)"
    }

    /// The parameters in the form in which they are sent.
    package var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        for value in values {
            switch value {
            case .text(let text): parameters.append(text)
            case .texts(let texts):
                parameters.beginArray(of: .text, count: texts.count)
                for var text in texts { text.withUTF8 { parameters.element(UnsafeRawBufferPointer($0)) } }
                parameters.endArray()
            case .integer(let integer): parameters.append(integer)
            case .time(let time): parameters.append(timestamp: time)
            case .uuid(let uuid): parameters.append(uuidHigh: uuid.high, low: uuid.low)
            }
        }
        return parameters
    }
}

extension PostgresConnection {
    /// Runs a statement that was put together with its parameters, once.
    ///
    /// - Throws: ``PostgresError``
    package func query(_ sql: String, _ values: SQLValues) throws(PostgresError) -> PostgresResult {
        try query(sql, values.parameters)
    }
}

extension PostgresResult {
    /// A value of type `uuid`; nil for null.
    package func digest(_ row: Int, _ column: Int) -> Digest128? {
        uuid(row, column).map { Digest128(high: $0.high, low: $0.low) }
    }
}
