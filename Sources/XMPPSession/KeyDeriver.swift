package import NIOCore
package import NIOPosix
import Synchronization
package import XMPP

/// Computes the keys of SASL away from the event loops, and remembers them: one for each sender.
///
/// A server may ask for 1,000,000 rounds, which take a processor a second; on an event loop that second would hold the acks of
/// every other connection there. All senders share one thread, so that a hundred connections that come back at once, or a
/// server that asks for something new each time, never take more than one processor. A key stays the same as long as salt,
/// rounds and secret do, so a reconnection usually costs nothing. What is remembered is worth as much to a thief of our memory
/// as the secret, which is there as well.
package final class KeyDeriver: Sendable {
    private struct Entry {
        var derivation: KeyDerivation
        var key: Secret
    }

    /// How many keys a sender remembers: one for each hash function, and those before a change of the secret.
    static let capacity = 4

    /// The one thread; it lives as long as the process.
    private static let thread: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        return pool
    }()

    private let pool: NIOThreadPool
    private let entries = Mutex<[Entry]>([])

    /// A deriver that remembers nothing yet.
    ///
    /// - Parameter pool: Where the work is done; nil for the process's one thread.
    package init(pool: NIOThreadPool? = nil) { self.pool = pool ?? KeyDeriver.thread }

    /// Gets a key, from memory or by computing it.
    ///
    /// - Parameters:
    ///   - derivation: What is to be computed.
    ///   - eventLoop: Where the answer is wanted.
    /// - Returns: Fails only where the pool has been shut down.
    package func key(for derivation: KeyDerivation, on eventLoop: any EventLoop) -> EventLoopFuture<Secret> {
        if let key = remembered(derivation) { return eventLoop.makeSucceededFuture(key) }
        return pool.runIfActive(eventLoop: eventLoop) { [self] in
            // Connections that came together wait for the first one's answer.
            if let key = remembered(derivation) { return key }
            let key = derivation.run()
            entries.withLock { entries in
                if entries.count >= KeyDeriver.capacity { entries.removeFirst() }
                entries.append(Entry(derivation: derivation, key: key))
            }
            return key
        }
    }

    /// How many keys are remembered; for tests.
    var remembered: Int { entries.withLock { $0.count } }

    private func remembered(_ derivation: KeyDerivation) -> Secret? {
        entries.withLock { entries in entries.first { $0.derivation.isSame(as: derivation) }?.key }
    }
}
