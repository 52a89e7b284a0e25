import ConfigurationKeys

/// How a sender's streams present themselves to a standard server, and where they may be redirected.
package struct StreamConfiguration: Sendable, Equatable {
    /// The resource to bind (RFC 6120 section 7.7); nil for the server's choice.
    package var resource: String?
    /// The priority of our presence (RFC 6121 section 4.7.2.3).
    package var priority: Int
    /// How long the server is asked to hold the session of a lost connection (XEP-0198 section 5); zero for not at all.
    package var resume: Duration
    /// The hosts that `see-other-host` may name (RFC 6120 section 4.9.3.19), with or without a port.
    package var redirectHosts: [String]

    /// The resource of a worker whose configuration names none.
    ///
    /// The same after every restart and on every machine: whoever binds it ends the session that held it before, and
    /// gets what that session left unacknowledged (docs/adr/0005).
    package static let defaultResource = "upstream-worker"

    /// Reads the sender's section; a CCS, unlike a standard server, chooses the resource itself.
    init(_ scope: ConfigurationScope, isStandard: Bool) {
        let resource: String? = scope.optional(
            "resource",
            .text("text", "at most 255 bytes, without a space at either end", Self.isResource),
            "`upstream-worker` for xmpp, the server's choice for ccs",
            "Resource to bind; the same after a restart, so that the worker gets what its last session left."
        )
        self.resource = resource ?? (isStandard ? Self.defaultResource : nil)
        priority = scope.value(
            "priority",
            .number(0...127),
            default: "127",
            "Priority of the presence at a standard server, which sends messages to the highest of an account's."
        )
        resume = scope.value(
            "resume",
            .duration("0s", "10m"),
            default: "0s",
            "How long a standard server is asked to hold a lost connection's session for resumption (XEP-0198); `0s`: off."
        )
        redirectHosts =
            scope.list(
                "redirect_hosts",
                of: .text("host", "a host name or an IP address, with or without a port", Self.isPlace),
                "none",
                "Hosts that the server may send us to (`see-other-host`), `name` or `name:port`; no other is followed."
            ) ?? []
    }

    private static func isResource(_ text: String) -> Bool {
        text.utf8.count <= 255 && !text.hasPrefix(" ") && !text.hasSuffix(" ")
    }

    /// Strict enough to catch a URL or an address with an @.
    private static func isPlace(_ text: String) -> Bool {
        text.utf8.count <= 255 && !text.hasPrefix(".")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "-._:[]".utf8.contains(byte)
                }
            }
    }
}
