package import HTTPTypes
import Hummingbird
package import Vocabulary

/// A proxy in front of the console, which may sign people in and say in a header who they are.
package struct TrustedProxy: Sendable {
    /// Where it sends from; what anybody else says in its headers is ignored.
    package var networks: [Network]
    /// The header with the user's name.
    package var header: HTTPField.Name
    /// What its users may do; `*` for those without an entry.
    ///
    /// None: it signs nobody in, and the header is the client's own.
    ///
    /// By their bytes: two names that look alike, and that Swift takes for one, are two people.
    private let users: [[UInt8]: Principal]

    package init(networks: [Network], header: HTTPField.Name, users: some Sequence<(key: String, value: Principal)>) {
        self.networks = networks
        self.header = header
        self.users = Dictionary(users.map { (Array($0.key.utf8), $0.value) }) { first, _ in first }
    }

    /// Whether a connection comes from the proxy.
    func sends(from peer: NetworkAddress?) -> Bool {
        guard let peer else { return false }
        return networks.contains { $0.contains(peer) }
    }

    /// Who the proxy says sent a request; nil where it says nothing, or signs nobody in.
    ///
    /// - Parameter request: From the proxy.
    /// - Throws: A ``Problem`` where it names two, or somebody without a role.
    /// - Returns: Who, with their role.
    func user(of request: Request) throws(Problem) -> Principal? {
        guard !users.isEmpty else { return nil }
        let names = request.headers[values: header]
        guard let name = names.first else { return nil }
        // Two could be one of the client's and one of the proxy's.
        guard names.count == 1 else {
            throw .badRequest("the header \(header) came twice: the proxy must replace what a client sends")
        }
        let isText = name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        guard !name.isEmpty, name.utf8.count <= 256, isText else {
            throw .badRequest("the header \(header) holds no name of a user")
        }
        guard var principal = users[Array(name.utf8)] ?? users[Array("*".utf8)] else {
            throw Problem(
                .forbidden,
                "forbidden",
                "Not allowed",
                "the proxy's user has no role: add them, or '*', to console.proxy.roles"
            )
        }
        principal.name = name
        return principal
    }
}
