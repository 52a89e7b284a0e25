package import Tracing

/// The names of our spans' attributes.
///
/// Those of OpenTelemetry's semantic conventions (messaging, database, errors), and our own, which begin with
/// `upstream.`. No value is a token, a device's message id, or payload: `messaging.message.id` is the message's key.
package enum SpanAttributeName: String, CaseIterable, Sendable {
    case system = "messaging.system"
    case operationType = "messaging.operation.type"
    case operationName = "messaging.operation.name"
    case destination = "messaging.destination.name"
    case messageCount = "messaging.batch.message_count"
    /// The message's key, a UUID: `message_key` in logs.
    case messageID = "messaging.message.id"
    /// The handler's name: its workers share the messages, and other handlers get their own copies.
    case consumerGroup = "messaging.consumer.group.name"
    case errorType = "error.type"
    case databaseSystem = "db.system.name"
    case databaseOperation = "db.operation.name"
    case databaseStatus = "db.response.status_code"
    case category = "upstream.category"
    case attempt = "upstream.attempt"
    /// The outcome of an attempt or ack.
    case outcome = "upstream.outcome"
    /// The replay that sent the message again.
    case replay = "upstream.replay"
}

extension SpanAttributes {
    package subscript(_ name: SpanAttributeName) -> SpanAttribute? {
        get { get(name.rawValue) }
        set { set(name.rawValue, value: newValue) }
    }
}

/// The operation of a messaging span (`messaging.operation.name`), and its type (`messaging.operation.type`).
package enum MessagingOperation: String, CaseIterable, Sendable {
    /// Stores a batch: from its first message read to its last ack written.
    case store
    /// Receives a message: from its stanza parsed to its ack written.
    case receive
    /// Writes a connection's acks.
    case ack
    /// Gives a message to a handler.
    case process

    /// Servers push messages to us, which is `process`; `receive` is for messages requested by the consumer.
    package var type: String { self == .ack ? "settle" : "process" }

    /// The conventions' span kind for the type.
    package var kind: SpanKind { self == .ack ? .client : .consumer }

    /// `{operation} {destination}`; without a destination, the operation alone.
    package func spanName(_ destination: String?) -> String {
        destination.map { "\(rawValue) \($0)" } ?? rawValue
    }

    package func attributes(_ destination: String?) -> SpanAttributes {
        var attributes = SpanAttributes()
        attributes[.system] = .string("xmpp")
        attributes[.operationType] = .string(type)
        attributes[.operationName] = .string(rawValue)
        if let destination { attributes[.destination] = .string(destination) }
        return attributes
    }
}
