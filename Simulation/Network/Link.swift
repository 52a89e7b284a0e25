import NIOCore
import Vocabulary

/// One TCP connection as the network has it: bytes in order, late, cut, swallowed or a few at a time.
final class Link {
    /// How the network treats the connection.
    struct Weather {
        var least = Duration.microseconds(100)
        var most = Duration.milliseconds(2)
        /// The most bytes that arrive at once, in a trickle; nil for all.
        var piece: Int?
    }

    /// One direction.
    private final class Way {
        /// When the last bytes arrive: later ones never overtake them.
        var last: UInt64 = 0
        /// What is under way, in order: of events that are due together any may come first.
        var events = CircularBuffer<() -> Void>()
    }

    private let scheduler: Scheduler
    private var random: SplitMix
    private let channel: SimulatedChannel
    private weak var peer: ServerStream?
    var weather: Weather
    /// Whether everything vanishes, both ways, and nobody is told.
    private(set) var isBlackHole = false
    private(set) var isOver = false
    private let (toClient, toServer) = (Way(), Way())
    /// The client's bytes that are under way or lost.
    private(set) var unacknowledged = 0

    init(_ scheduler: Scheduler, seed: UInt64, weather: Weather, channel: SimulatedChannel, peer: ServerStream) {
        (self.scheduler, self.weather, self.channel, self.peer) = (scheduler, weather, channel, peer)
        random = SplitMix(seed: seed, for: "link")
        // Weak: a client may hold its end for longer than the server.
        channel.send = { [weak self] in self?.clientWrote($0) }
        channel.room = { [weak self] in Self.sendBuffer - (self?.unacknowledged ?? 0) }
        // Two microseconds for a message.
        channel.work = { [scheduler] in scheduler.spend(nanoseconds: UInt64($0) * 10) }
        channel.finish = { [weak self] in self?.clientEnded() }
    }

    /// The bytes that the client's kernel takes before the server has them.
    private static let sendBuffer = 128 << 10

    private func deliver(_ way: Way, _ body: @escaping () -> Void) {
        let delay = random.time(weather.least, weather.most)
        way.last = max(scheduler.now &+ delay.nanoseconds, way.last &+ 1)
        way.events.append(body)
        scheduler.at(way.last, as: Scheduler.world) { way.events.popFirst()?() }
    }

    // MARK: From the server

    func serverWrites(_ bytes: ByteBuffer) {
        guard !isOver, !isBlackHole else { return }
        var rest = bytes
        while rest.readableBytes > 0 {
            let count = weather.piece.map { 1 + random.below($0) } ?? rest.readableBytes
            guard let piece = rest.readSlice(length: min(count, rest.readableBytes)) else { return }
            deliverToClient { $0.arrived(piece) }
        }
    }

    /// Ends the connection after what was written.
    func serverEnds() {
        guard !isOver else { return }
        end()
        if !isBlackHole { deliverToClient { $0.peerEnded(nil) } }
    }

    private func deliverToClient(_ body: @escaping (SimulatedChannel) -> Void) {
        deliver(toClient) { [self] in if !isBlackHole { body(channel) } }
    }

    private func deliverToServer(_ body: @escaping () -> Void) { deliver(toServer, body) }

    private func clientWrote(_ bytes: ByteBuffer) {
        guard !isOver, let peer else { return }
        unacknowledged += bytes.readableBytes
        let events = peer.wrote(bytes)
        guard !isBlackHole else { return }
        let count = bytes.readableBytes
        deliverToServer { [self] in
            guard !isBlackHole, !isOver else { return }
            unacknowledged -= count
            peer.arrived(events)
            channel.roomGrew()
        }
    }

    private func clientEnded() {
        guard !isOver, !isBlackHole else { return }
        deliverToServer { [self] in end() }
    }

    private func end() {
        guard !isOver else { return }
        isOver = true
        peer?.ended()
    }

    // MARK: Faults

    /// Resets the connection at both ends; what was under way is lost.
    func cut() {
        guard !isOver else { return }
        end()
        if !isBlackHole { channel.peerEnded(ConnectionReset()) }
        isBlackHole = true
    }

    /// Lets everything vanish from now on; the server gives up after a while.
    func swallow(serverGivesUpAfter patience: Duration) {
        guard !isOver else { return }
        isBlackHole = true
        scheduler.after(patience, as: Scheduler.world) { [self] in end() }
    }

    /// The client's process has died: its kernel ends the connection.
    func clientDied() {
        guard !isBlackHole else { return }
        deliverToServer { [self] in end() }
    }
}

struct ConnectionReset: Error, CustomStringConvertible {
    var description: String { "connection reset by peer" }
}
