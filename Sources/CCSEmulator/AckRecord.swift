/// One accepted ack of a copy.
package struct AckRecord: Sendable {
    /// The message's id, unescaped.
    package var id: [UInt8]
    /// When it was read.
    package var at = ContinuousClock.now
}
