/// The name of every log field, in the order in which they are written.
///
/// No field may hold a token, a message id, a payload or a credential; `message_key` and `device_key` stand for them.
package enum LogField: String, CaseIterable, Hashable, Sendable {
    // Every line has these four.
    case time
    case level
    case message
    case event

    case sender
    /// The connection's number in this process.
    case connection
    case messageKey = "message_key"
    case deviceKey = "device_key"
    case category
    case handler
    /// The number of the attempt, from 1.
    case attempt
    case batch
    case sqlstate
    /// A duration in seconds, past or expected.
    case durationSeconds = "duration_seconds"
    /// The time left in seconds; negative if it is over.
    case remainingSeconds = "remaining_seconds"
    /// A retention period in seconds.
    case periodSeconds = "period_seconds"
    /// How far this machine's clock is ahead of the database's, in seconds; negative if it is behind.
    case aheadSeconds = "ahead_seconds"
    /// The function of PostgreSQL's source that sent a warning.
    case routine
    case replay
    /// A reason from a closed set.
    case reason
    case count
    case bytes
    /// A line that a handler's program wrote to its standard error.
    case line
    case host
    case port
    /// The peer's IP address.
    case address
    /// The name of the SRV records that led to a host.
    case service
    case state
    /// The SASL mechanism in use.
    case mechanism
    /// The type of channel binding to the TLS connection, or `none`.
    case binding
    /// The SASL mechanisms that the server offers.
    case offered
    case certificate
    case cipher
    /// The version of a schema, program or protocol.
    case version
    case table
    case key
    /// Configuration keys, separated by spaces.
    case keys
    /// A loop that reports its progress to the watchdog.
    case loop
    /// A console user.
    case principal
    case method
    /// The pattern of a request's path, without its values.
    case route
    case status
    case signal
    /// The library that logged the line.
    case source
    /// What failed and what to do about it.
    case error
}
