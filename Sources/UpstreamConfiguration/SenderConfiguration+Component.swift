import ConfigurationKeys
import Vocabulary
import XMPP

// What the configuration of an external component (XEP-0114) must and must not have.
extension SenderConfiguration {
    /// A component's domain as sent, in lower case.
    ///
    /// Servers prepare the names they are configured with, which lowers their case, and some compare ours byte by byte.
    static func component(_ domain: String) -> String {
        let name = domain.lowercased()
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }

    /// The default of `trusted_from`.
    ///
    /// For a component, the domain above its own, which usually is the server's (`upstream.example.com` on the server
    /// of `example.com`), and all accounts there.
    static func trusted(by dialect: Dialect, _ domain: String) -> [String] {
        switch dialect {
        case .ccs: return ["devices@gcm.googleapis.com"]
        case .xmpp: return []
        case .component:
            guard let parent = parent(of: domain) else { return [] }
            return [parent, "*@\(parent)"]
        }
    }

    private static func parent(of domain: String) -> String? {
        guard let dot = domain.firstIndex(of: "."), NetworkAddress(domain) == nil else { return nil }
        let parent = domain[domain.index(after: dot)...]
        return parent.isEmpty ? nil : String(parent)
    }

    /// Reports settings that a component can't have, and those that only a component can.
    func checkComponent(_ scope: ConfigurationScope) {
        checkClearText(scope)
        guard dialect == .component else { return }
        if scope.isMissing("domain") {
            scope.problem(
                "domain",
                "is required with 'dialect: component': the component's own, such as upstream.example.com"
            )
        } else if NetworkAddress(domain) != nil {
            scope.problem("domain", "must be the component's name on the server, not an address")
        } else if stream.trustedFrom.isEmpty {
            scope.problem(
                "trusted_from",
                "must name whose messages are taken, such as [\"*@example.com\"]: there is no domain above '\(domain)'"
            )
        }
        let ofAccounts = ["username", "allow_plain", "channel_binding", "resource", "priority", "resume"]
        for key in ofAccounts where !scope.isMissing(key) {
            scope.problem(key, "has no meaning with 'dialect: component', which has no account; leave it out")
        }
        if tlsMode == .starttls {
            scope.problem(
                "tls.mode",
                "must not be 'starttls' with 'dialect: component': servers offer components TLS from the first byte "
                    + "('direct') or none ('none')"
            )
        }
        if connections > 1 {
            scope.warning(
                "connections",
                "Prosody takes one connection for a component and refuses or replaces the others; ejabberd shares messages out "
                    + "at random among all of them, so that a device's messages may overtake each other"
            )
        }
    }

    private func checkClearText(_ scope: ConfigurationScope) {
        guard tlsMode == .none else {
            if !clearNetworks.isEmpty {
                scope.problem("tls.allow_clear_networks", "has no meaning without 'mode: none'")
            }
            return
        }
        guard dialect == .component else {
            return scope.problem(
                "tls.mode",
                "must not be 'none': only a component ('dialect: component') may connect without TLS"
            )
        }
        // A host name is checked by the address it resolves to, when connecting.
        guard let address = NetworkAddress(host) else { return }
        if !ClearNetworks(clearNetworks.compactMap { Network($0) }).contains(address) {
            scope.problem(
                "host",
                "is neither this machine nor in 'tls.allow_clear_networks', and nothing is sent elsewhere with 'tls.mode: none'"
            )
        }
    }
}
