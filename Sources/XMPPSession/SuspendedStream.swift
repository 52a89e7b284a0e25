import Telemetry
import Vocabulary
import XMPP

/// The stream of a lost connection, resumed over the next one if the server still holds its session.
///
/// A class, because every connection reserves room for one.
final class SuspendedStream: Sendable {
    /// Our address and the counts.
    let session: SuspendedSession
    /// The acks that the server may lack, including those of messages committed after the loss.
    let acks: UnconfirmedAcks
    /// Until when the server holds it, in nanoseconds of the monotonic clock.
    let heldUntil: UInt64

    init(session: SuspendedSession, acks: UnconfirmedAcks, heldUntil: UInt64) {
        self.session = session
        self.acks = acks
        self.heldUntil = heldUntil
    }

    /// Whether the server may still hold it.
    var isHeld: Bool { MonotonicTime.now.nanoseconds < heldUntil }

    /// The host where the server wants it to be resumed.
    var location: String? { session.management.location }

    /// Gives it up with its unsent acks.
    ///
    /// The messages are redelivered and acked then; those that a `<resume/>` has reported to the server, only if their
    /// devices send them again.
    func abandon(_ metrics: Metrics) { metrics.acks[.connectionGone].increment(by: acks.uncounted) }
}
