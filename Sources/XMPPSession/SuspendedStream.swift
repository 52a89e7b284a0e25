import Telemetry
import Vocabulary
import XMPP

/// A stream whose connection was lost, and which goes on over the next one if the server still holds its session.
///
/// A class, because every connection holds room for one.
final class SuspendedStream: Sendable {
    /// Our address and the counts.
    let session: SuspendedSession
    /// The acks that the server may not have; those that committed after the connection was lost are among them.
    let acks: UnconfirmedAcks
    /// Until when the server holds it; nanoseconds of the monotonic clock.
    let heldUntil: UInt64

    init(session: SuspendedSession, acks: UnconfirmedAcks, heldUntil: UInt64) {
        self.session = session
        self.acks = acks
        self.heldUntil = heldUntil
    }

    /// Whether it is worth asking for.
    var isHeld: Bool { MonotonicTime.now.nanoseconds < heldUntil }

    /// Where the server wants to be asked for it.
    var location: String? { session.management.location }

    /// Gives it up: what was not sent is not acked.
    ///
    /// The messages come again, and are acked then; those that a `<resume/>` has told the server of, only if their devices send
    /// them again.
    func abandon(_ metrics: Metrics) { metrics.acks[.connectionGone].increment(by: acks.uncounted) }
}
