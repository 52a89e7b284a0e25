import DNS
import NIOCore
import NIOPosix
import Vocabulary

/// Asks name servers off the event loops, on a few threads, since glibc's resolver blocks for up to half a minute.
///
/// A question fails at its time limit even if its thread still works; one that gets a thread only after its limit is
/// not asked at all, so that an outage of the name servers piles nothing up.
enum ServiceLookup {
    static let timeout = Duration.seconds(10)

    static let threadCount = 8

    /// The threads, kept for the process's lifetime.
    private static let threads: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: threadCount)
        pool.start()
        return pool
    }()

    /// Asks for all services that a discovery allows, concurrently; never fails.
    static func findings(
        of discovery: ServerDiscovery,
        on eventLoop: any EventLoop
    ) -> EventLoopFuture<[ServerDiscovery.Service: ServerDiscovery.Finding]> {
        let questions = discovery.services.map { service in
            let servers = discovery.nameServers
            let name = discovery.name(of: service)
            return ask(on: eventLoop) { () throws(DNSError) in try servers.services(name) }.map { (service, $0) }
        }
        return EventLoopFuture.whenAllSucceed(questions, on: eventLoop)
            .map { Dictionary(uniqueKeysWithValues: $0) }
    }

    static func ask(
        within timeout: Duration = timeout,
        on eventLoop: any EventLoop,
        _ question: @escaping @Sendable () throws(DNSError) -> ServiceAnswer
    ) -> EventLoopFuture<ServerDiscovery.Finding> {
        let promise = eventLoop.makePromise(of: ServerDiscovery.Finding.self)
        let deadline = MonotonicTime.now.nanoseconds &+ timeout.nanoseconds
        let expiry = eventLoop.scheduleTask(in: TimeAmount(timeout)) { promise.succeed(.failure(.noAnswer)) }
        threads.runIfActive(eventLoop: eventLoop) { () -> ServerDiscovery.Finding in
            MonotonicTime.now.nanoseconds < deadline ? Result(catching: question) : .failure(.noAnswer)
        }
        .whenComplete { result in
            expiry.cancel()
            // Only a pool that was shut down fails, and this one never is. A late answer changes nothing.
            promise.succeed((try? result.get()) ?? .failure(.noAnswer))
        }
        return promise.futureResult
    }
}
