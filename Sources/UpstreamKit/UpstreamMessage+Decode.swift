public import FoundationEssentials

extension UpstreamMessage {
    /// Decodes ``data`` as a `Decodable` type.
    ///
    /// ```swift
    /// struct Order: Decodable { var item: String; var quantity: Int }
    /// let order = try message.decode(Order.self)
    /// ```
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - decoder: A decoder with your own strategies; by default a plain `JSONDecoder`.
    /// - Returns: The decoded value.
    /// - Throws: ``MessageDataError``. Let it leave the handler: since the data never changes, the message becomes a
    ///   dead letter at once, without retries.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self,
        using decoder: JSONDecoder = JSONDecoder()
    ) throws(MessageDataError) -> Value {
        guard let data else {
            throw MessageDataError(code: .absent, typeName: "\(type)", path: [], underlying: nil)
        }
        do {
            return try decoder.decode(type, from: Data(data))
        } catch {
            throw MessageDataError(
                code: .notDecodable,
                typeName: "\(type)",
                path: MessageDataError.printablePath(of: error),
                underlying: error
            )
        }
    }
}

/// Why a message's `data` could not be decoded.
///
/// A handler that throws it rejects the message.
public struct MessageDataError: Error, Sendable, CustomStringConvertible {
    /// What went wrong.
    public enum Code: Sendable, Hashable {
        /// The message has no `data`.
        case absent
        /// The data doesn't fit the type.
        case notDecodable
    }

    /// What went wrong.
    public var code: Code

    /// The requested type.
    public var typeName: String

    /// The path in the data, by the type's own coding keys; keys from the device are shown as `*`.
    public var path: [String]

    /// The decoder's error.
    ///
    /// - Warning: Its text may quote the payload: don't log it.
    public var underlying: (any Error)?

    /// The type and the path, never the payload.
    public var description: String {
        let place = path.isEmpty ? "" : " at \(path.joined(separator: "."))"
        switch code {
        case .absent: return "the message has no data to read as \(typeName)"
        case .notDecodable: return "the message's data does not read as \(typeName)\(place)"
        }
    }

    /// The coding path of a decoder's error, with everything masked that the device may have chosen.
    static func printablePath(of error: any Error) -> [String] {
        let path: [any CodingKey]
        switch error {
        case DecodingError.keyNotFound(let key, let context): path = context.codingPath + [key]
        case DecodingError.typeMismatch(_, let context): path = context.codingPath
        case DecodingError.valueNotFound(_, let context): path = context.codingPath
        case DecodingError.dataCorrupted(let context): path = context.codingPath
        default: path = []
        }
        return path.prefix(16).map { key in
            if key.intValue != nil { return "[]" }
            // A type's coding keys are an enum, fixed in the source; a dictionary's keys come from the payload.
            return Mirror(reflecting: key).displayStyle == .enum ? key.stringValue : "*"
        }
    }
}
