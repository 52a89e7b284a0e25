/// An accepted ack of one copy.
package struct AckRecord: Sendable {
    /// The message's id, unescaped.
    package var id: [UInt8]
    package var at = ContinuousClock.now
}
