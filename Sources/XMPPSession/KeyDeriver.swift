package import NIOCore
package import NIOPosix
import Synchronization
package import XMPP

/// Computes the keys of SASL off the event loops, and caches them; one for each sender.
///
/// A server may ask for 1,000,000 rounds, a second of processor time: all senders share one thread, so that a hundred
/// connections that reconnect at once never take more than one processor. A cached key is as sensitive as the secret.
package final class KeyDeriver: Sendable {
    /// The most keys cached: one for each hash function, and those before a change of the secret.
    static let capacity = 6

    /// The only thread, kept for the process's lifetime.
    private static let thread: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        return pool
    }()

    private let pool: NIOThreadPool
    private let entries = Mutex<[(derivation: KeyDerivation, key: Secret)]>([])

    /// A deriver with an empty cache; by default its pool is the process's one thread.
    package init(pool: NIOThreadPool? = nil) { self.pool = pool ?? KeyDeriver.thread }

    /// Returns a key from the cache, or computes it; fails only if the pool has been shut down.
    package func key(for derivation: KeyDerivation, on eventLoop: any EventLoop) -> EventLoopFuture<Secret> {
        if let key = cached(derivation) { return eventLoop.makeSucceededFuture(key) }
        return pool.runIfActive(eventLoop: eventLoop) { [self] in
            // Concurrent connections wait for the first one's result.
            if let key = cached(derivation) { return key }
            let key = derivation.run()
            entries.withLock { entries in
                if entries.count >= KeyDeriver.capacity { entries.removeFirst() }
                entries.append((derivation, key))
            }
            return key
        }
    }

    var cachedCount: Int { entries.withLock { $0.count } }

    private func cached(_ derivation: KeyDerivation) -> Secret? {
        entries.withLock { entries in entries.first { $0.derivation.isSame(as: derivation) }?.key }
    }
}
