package import Tracing

/// The names of the attributes that spans of ours have.
///
/// Those of OpenTelemetry's semantic conventions (messaging, database, errors), and our own, which begin with `upstream.`. No
/// value is a token, a message id as the device gave it, or payload: `messaging.message.id` is the message's key.
package enum SpanAttributeName: String, CaseIterable, Sendable {
    case system = "messaging.system"
    case operationType = "messaging.operation.type"
    case operationName = "messaging.operation.name"
    case destination = "messaging.destination.name"
    case messageCount = "messaging.batch.message_count"
    /// The message's key, a UUID, as logs have it in `message_key`.
    case messageID = "messaging.message.id"
    /// The handler's name: its workers share the messages, and other handlers get their own copies.
    case consumerGroup = "messaging.consumer.group.name"
    case errorType = "error.type"
    case databaseSystem = "db.system.name"
    case databaseOperation = "db.operation.name"
    case databaseStatus = "db.response.status_code"
    /// The message's category, as logs have it.
    case category = "upstream.category"
    /// Which attempt it is, from 1.
    case attempt = "upstream.attempt"
    /// What became of an attempt, or of an ack.
    case outcome = "upstream.outcome"
    /// The replay that sent the message again.
    case replay = "upstream.replay"
}

extension SpanAttributes {
    /// The value of an attribute of ours.
    package subscript(_ name: SpanAttributeName) -> SpanAttribute? {
        get { get(name.rawValue) }
        set { set(name.rawValue, value: newValue) }
    }
}

/// What a messaging span is about (`messaging.operation.type`), and what we call it (`messaging.operation.name`).
package enum MessagingOperation: String, CaseIterable, Sendable {
    /// A batch is stored: from its first message read to its last ack written.
    case store
    /// One message is received: from its stanza parsed to its ack written.
    case receive
    /// Acks of one connection are written.
    case ack
    /// A handler is given a message.
    case process

    /// Servers push messages to us, which is `process`; `receive` is for those that are asked for.
    package var type: String { self == .ack ? "settle" : "process" }

    /// The kind that the conventions have for the type.
    package var kind: SpanKind { self == .ack ? .client : .consumer }

    /// `{operation} {destination}`; without a destination, the operation alone.
    package func spanName(_ destination: String?) -> String {
        destination.map { "\(rawValue) \($0)" } ?? rawValue
    }

    /// The attributes that every messaging span has.
    package func attributes(_ destination: String?) -> SpanAttributes {
        var attributes = SpanAttributes()
        attributes[.system] = .string("xmpp")
        attributes[.operationType] = .string(type)
        attributes[.operationName] = .string(rawValue)
        if let destination { attributes[.destination] = .string(destination) }
        return attributes
    }
}
