package import HTTPTypes
import Hummingbird
package import Vocabulary

/// A proxy in front of the console, which may authenticate people and name them in a header.
package struct TrustedProxy: Sendable {
    /// The networks it connects from; the header is ignored from elsewhere.
    package var networks: [Network]
    package var header: HTTPField.Name
    /// Principals by user name; `*` for users without an entry.
    ///
    /// Empty: the proxy authenticates nobody, and the header is the client's own. Keyed by bytes: names that Swift
    /// equates may be two people's.
    private let users: [[UInt8]: Principal]

    package init(networks: [Network], header: HTTPField.Name, users: some Sequence<(key: String, value: Principal)>) {
        self.networks = networks
        self.header = header
        self.users = Dictionary(users.map { (Array($0.key.utf8), $0.value) }) { first, _ in first }
    }

    func sends(from peer: NetworkAddress?) -> Bool {
        guard let peer else { return false }
        return networks.contains { $0.contains(peer) }
    }

    /// The user that the proxy names; nil if it names or authenticates nobody.
    ///
    /// - Throws: A ``Problem`` if it names two users, or one without a role.
    func user(of request: Request) throws(Problem) -> Principal? {
        guard !users.isEmpty else { return nil }
        let names = request.headers[values: header]
        guard let name = names.first else { return nil }
        // One may be the client's and one the proxy's.
        guard names.count == 1 else {
            throw .badRequest("the header \(header) came twice: the proxy must replace what a client sends")
        }
        let isText = name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        guard !name.isEmpty, name.utf8.count <= 256, isText else {
            throw .badRequest("the header \(header) holds no name of a user")
        }
        guard var principal = users[Array(name.utf8)] ?? users[Array("*".utf8)] else {
            throw Problem(.forbidden, "the proxy's user has no role: add them, or '*', to console.proxy.roles")
        }
        principal.name = name
        return principal
    }
}
