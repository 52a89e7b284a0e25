import XMLWire

/// A server's offer of mechanisms in the features of an encrypted stream.
package struct SASLOffer: Sendable, Equatable {
    package var profile: SASLProfile
    package var mechanisms: [String]
    /// The listed types of channel binding (XEP-0440), unchanged; nil without a list.
    package var bindings: [String]?

    package init(mechanisms: [String], bindings: [String]? = nil, profile: SASLProfile = .core) {
        self.profile = profile
        self.mechanisms = mechanisms
        self.bindings = bindings
    }

    /// Reads the offer of the first of these profiles that the server has; the framer's bounds on elements bound the
    /// lists.
    init(_ features: Stanza, profiles: [SASLProfile] = [.core]) {
        mechanisms = []
        profile = profiles.first { features.child($0.list, in: $0.namespace) != nil } ?? .core
        if let list = features.child(profile.list, in: profile.namespace) {
            for child in features.children(of: list)
            where features.element(child, is: "mechanism", in: profile.namespace) {
                mechanisms.append(features.string(features.elements[child].text))
            }
        }
        guard let list = features.child("sasl-channel-binding", in: XMLNamespace.channelBinding) else { return }
        var types: [String] = []
        for child in features.children(of: list)
        where features.element(child, is: "channel-binding", in: XMLNamespace.channelBinding) {
            if let type = features.attribute("type", of: child) { types.append(features.string(type)) }
        }
        bindings = types
    }

    /// The text whose hash a server with XEP-0474 (version 0.4.0) puts into its first SCRAM message.
    ///
    /// The lists are sorted by bytes. The separators are not allowed in XML, so no two offers give the same text.
    var downgradeText: [UInt8] {
        func joined(_ names: [String]) -> [UInt8] {
            let sorted = names.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            return Array(sorted.joined(separator: [0x1e]))
        }
        guard let bindings else { return joined(mechanisms) }
        return joined(mechanisms) + [0x1f] + joined(bindings)
    }
}
