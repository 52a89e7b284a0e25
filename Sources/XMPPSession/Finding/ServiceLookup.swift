import DNS
import NIOCore
import NIOPosix
import Vocabulary

/// Asks name servers off the event loops.
///
/// glibc's resolver blocks, so it has threads of its own: a few for the process, so that one sender's silent name servers,
/// which can hold a thread for half a minute, do not keep others from being asked. A question is given up after a time,
/// whether or not its thread has come back; one whose time is over before a thread was free is not asked at all, so that an
/// outage of the name servers piles nothing up.
enum ServiceLookup {
    /// How long an answer may take.
    static let timeout = Duration.seconds(10)

    /// How many questions are asked at the same time; each connection has two.
    static let threadCount = 8

    /// The threads; they live as long as the process.
    private static let threads: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: threadCount)
        pool.start()
        return pool
    }()

    /// Asks for all services that a discovery allows, at the same time.
    ///
    /// - Returns: Never fails: what could not be found out is a ``ServerDiscovery/Finding/failed(_:)``.
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

    /// Runs a question on a thread, for as long as it may take.
    static func ask(
        within timeout: Duration = timeout,
        on eventLoop: any EventLoop,
        _ question: @escaping @Sendable () throws(DNSError) -> ServiceAnswer
    ) -> EventLoopFuture<ServerDiscovery.Finding> {
        let promise = eventLoop.makePromise(of: ServerDiscovery.Finding.self)
        let deadline = MonotonicTime.now.nanoseconds &+ timeout.nanoseconds
        let expiry = eventLoop.scheduleTask(in: TimeAmount(timeout)) { promise.succeed(.failed(.noAnswer)) }
        threads.runIfActive(eventLoop: eventLoop) { () -> ServerDiscovery.Finding in
            guard MonotonicTime.now.nanoseconds < deadline else { return .failed(.noAnswer) }
            do throws(DNSError) {
                return .answer(try question())
            } catch {
                return .failed(error)
            }
        }
        .whenComplete { result in
            expiry.cancel()
            // Only a pool that was shut down fails, and this one never is. Too late an answer changes nothing.
            promise.succeed((try? result.get()) ?? .failed(.noAnswer))
        }
        return promise.futureResult
    }
}
