/// The name of every field in a log line, in the order they are written.
///
/// No field may hold a token, a message id, a payload or a credential; `message_key` and `device_key` stand for them.
package enum LogField: String, CaseIterable, Hashable, Sendable {
    // Every line has these four.
    case time
    case level
    case message
    case event

    /// The sender id that a connection belongs to.
    case sender
    /// The connection's number within the process.
    case connection
    /// The message's key, a UUID.
    case messageKey = "message_key"
    /// The device's key, a UUID.
    case deviceKey = "device_key"
    /// The message's category, as the device gave it.
    case category
    /// A handler's name.
    case handler
    /// How often this has been tried, from 1.
    case attempt
    /// Copies in a batch.
    case batch
    /// The SQLSTATE of a database error.
    case sqlstate = "sqlstate"
    /// How long it took or will take, in seconds.
    case durationSeconds = "duration_seconds"
    /// How long is left, in seconds; negative where it is over.
    case remainingSeconds = "remaining_seconds"
    /// How long something is kept, in seconds.
    case periodSeconds = "period_seconds"
    /// By how much this machine's clock is ahead of the database's, in seconds; negative where it is behind.
    case aheadSeconds = "ahead_seconds"
    /// The function of PostgreSQL's source that sent a warning.
    case routine
    /// A replay's id, a UUID.
    case replay
    /// Why, from a closed set.
    case reason
    /// How many.
    case count
    /// A size in bytes.
    case bytes
    /// A line that a handler's own program wrote to its standard error.
    case line
    /// A host name or address.
    case host
    /// A port.
    case port
    /// The IP address that was connected to.
    case address
    /// The name of the service records that led to a host.
    case service
    /// A state's name.
    case state
    /// The SASL mechanism that a connection has signed in with.
    case mechanism
    /// What ties that to the TLS connection: a type of channel binding, or `none`.
    case binding
    /// The SASL mechanisms to choose from.
    case offered
    /// Whose certificate it is.
    case certificate
    /// What encrypts a connection.
    case cipher
    /// A schema's, a program's or a protocol's version.
    case version
    /// A table or partition.
    case table
    /// A configuration key.
    case key
    /// Configuration keys, separated by spaces.
    case keys
    /// A loop of the worker that reports its progress to the watchdog.
    case loop
    /// The name of somebody who uses the console.
    case principal
    /// A request's method.
    case method
    /// The pattern of a request's path, without the values in it.
    case route
    /// The HTTP status of an answer.
    case status
    /// A signal's name.
    case signal
    /// The library that logged by itself.
    case source
    /// What failed and what to do about it.
    case error
}
