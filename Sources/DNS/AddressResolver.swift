import Glibc
import Synchronization
package import Vocabulary

/// Looks up the addresses of a name.
package struct AddressResolver: Sendable {
    /// Returns all addresses of a name, in the order to try them; throws ``ResolveError`` if there are none.
    package let resolve: @Sendable (String) async throws -> [NetworkAddress]

    package init(_ resolve: @escaping @Sendable (String) async throws -> [NetworkAddress]) { self.resolve = resolve }

    /// The longest wait for the name servers.
    private static let limit = Duration.seconds(10)

    /// `getaddrinfo`, which blocks for up to half a minute where no name server answers.
    package static let system = blocking(lookUp)

    /// A resolver that runs each name's look-ups one at a time, on a thread of their own.
    ///
    /// So a name without an answer holds up no other, and piles nothing up. Whoever asks meanwhile gets the same answer;
    /// nobody waits for it who is cancelled.
    static func blocking(_ lookUp: @escaping @Sendable (String) throws -> [NetworkAddress]) -> AddressResolver {
        let lookUps = LookUps()
        return AddressResolver { host in
            let found = LookUps.Waiter()
            if lookUps.add(found, for: host) {
                let isStarted = DetachedThread.run(stack: nil) {
                    lookUps.end(host, Result { try lookUp(host) })
                }
                if !isStarted { lookUps.end(host, .failure(ResolveError(reason: "no thread is left to ask"))) }
            }
            guard let result = await found.value(or: nil, within: limit) else {
                throw ResolveError(reason: "no name server has answered")
            }
            return try result.get()
        }
    }

    private static func lookUp(_ host: String) throws -> [NetworkAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let number = getaddrinfo(host, nil, &hints, &list)
        guard number == 0 else { throw ResolveError(reason: String(cString: gai_strerror(number))) }
        // Ours since getaddrinfo succeeded.
        defer { freeaddrinfo(list) }
        var addresses: [NetworkAddress] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            guard let address = entry.pointee.ai_addr.flatMap(read), !addresses.contains(address) else { continue }
            addresses.append(address)
        }
        guard !addresses.isEmpty else { throw ResolveError(reason: "it has no address") }
        return addresses
    }

    private static func read(_ address: UnsafeMutablePointer<sockaddr>) -> NetworkAddress? {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { pointer in
                withUnsafeBytes(of: pointer.pointee.sin_addr) { NetworkAddress(bytes: Array($0)) }
            }
        case AF_INET6:
            address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { pointer in
                withUnsafeBytes(of: pointer.pointee.sin6_addr) { NetworkAddress(bytes: Array($0)) }
            }
        default: nil
        }
    }
}

/// The look-ups under way, with those who wait for them.
private final class LookUps: Sendable {
    typealias Answer = Result<[NetworkAddress], any Error>
    typealias Waiter = Promise<Answer?>

    private let waiters = Mutex<[String: [Waiter]]>([:])

    /// Adds one who waits; returns whether the look-up has to be made.
    func add(_ waiter: Waiter, for host: String) -> Bool {
        waiters.withLock { waiters in
            let isFirst = waiters[host] == nil
            waiters[host, default: []].append(waiter)
            return isFirst
        }
    }

    func end(_ host: String, _ answer: Answer) {
        for waiter in waiters.withLock({ $0.removeValue(forKey: host) }) ?? [] { waiter.fulfil(answer) }
    }
}

package struct ResolveError: Error {
    package var reason: String
}
