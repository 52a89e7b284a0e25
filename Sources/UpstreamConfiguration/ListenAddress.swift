import ConfigurationKeys

/// An address to listen at.
package enum ListenAddress: Sendable, Equatable {
    /// Nowhere.
    case off
    /// On a host and port; port 0 takes a free one.
    case tcp(host: String, port: Int)
}

extension ConfigurationType where Value == ListenAddress {
    /// `off`, `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`.
    static var listen: Self {
        .init(name: "`off` or host:port", placeholder: .off) { text throws(ConfigurationTypeError) in
            if text == "off" { return .off }
            let wanted = ConfigurationTypeError(
                message: "must be 'off' or host:port such as 127.0.0.1:9464 or [::1]:9464, not "
                    + "'\(ConfigurationType<String>.shown(text))'"
            )
            guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
                throw wanted
            }
            var host = String(text[..<colon])
            if host.hasPrefix("["), host.hasSuffix("]") {
                host = String(host.dropFirst().dropLast())
                guard AddressFamily(of: host) == .ipv6 else { throw wanted }
            } else if host.isEmpty || host.contains(":") || host.contains("/") || host.contains(" ") {
                throw wanted
            }
            return .tcp(host: host, port: Int(port))
        }
    }
}
