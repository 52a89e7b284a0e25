import NIOCore
import Vocabulary

/// Connects workers with the account's server, and knows every connection, so that faults can strike it.
final class Network {
    private let scheduler: Scheduler
    private let account: Account
    private let seed: UInt64
    private var random: SplitMix
    private var made: UInt64 = 0
    private var weather: Link.Weather
    /// Until when the server refuses connections, and until when it does not even answer.
    private var refusesUntil: UInt64 = 0
    private var ignoresUntil: UInt64 = 0
    private let address = try? SocketAddress(ipAddress: "192.0.2.1", port: 5235)

    init(_ scheduler: Scheduler, seed: UInt64, account: Account) {
        (self.scheduler, self.seed, self.account) = (scheduler, seed, account)
        random = SplitMix(seed: seed, for: "network")
        weather = Link.Weather()
        weather.most = random.time(.microseconds(200), .milliseconds(80))
        weather.least = weather.most / (2 + random.below(8))
    }

    /// The transport of a worker's connections.
    func connect(_ eventLoop: any EventLoop, of process: Int) -> EventLoopFuture<any Channel> {
        let promise = eventLoop.makePromise(of: (any Channel).self)
        let delay = random.time(weather.least, weather.most) * 2
        let refusal: (after: Duration, any Error)? =
            scheduler.now < ignoresUntil
            ? (.seconds(10), ChannelError.connectTimeout(.seconds(10)))
            : scheduler.now < refusesUntil ? (delay, ConnectionReset()) : nil
        if let (delay, error) = refusal {
            scheduler.after(delay, as: Scheduler.world) { eventLoop.execute { promise.fail(error) } }
            return promise.futureResult
        }
        scheduler.after(delay, as: Scheduler.world) { [self] in
            guard scheduler.isAlive(process) else { return }
            let channel = SimulatedChannel(on: eventLoop, address: address)
            open(channel, of: process)
            eventLoop.execute {
                channel.start()
                promise.succeed(channel)
            }
        }
        return promise.futureResult
    }

    private func open(_ channel: SimulatedChannel, of process: Int) {
        let stream = account.open(for: process)
        made += 1
        stream.connect(Link(scheduler, seed: seed ^ made << 32, weather: weather, channel: channel, peer: stream))
        account.judge.note("worker \(process) connects as stream \(stream.number)")
    }

    // MARK: Faults

    func refuse(for time: Duration) { refusesUntil = scheduler.now &+ time.nanoseconds }

    func ignore(for time: Duration) { ignoresUntil = scheduler.now &+ time.nanoseconds }

    /// The kernel of a dead process ends its connections.
    func died(_ process: Int) {
        for stream in account.streams where stream.process == process { stream.link?.clientDied() }
    }

    /// Ends the faults of new connections.
    func heal() { (refusesUntil, ignoresUntil) = (0, 0) }
}
