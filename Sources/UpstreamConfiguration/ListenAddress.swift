import ConfigurationKeys
import Glibc

package enum ListenAddress: Sendable, Equatable {
    case off
    /// On a host and port; port 0 takes a free one.
    case tcp(host: String, port: Int)
}

extension ConfigurationType where Value == ListenAddress {
    /// `off`, `127.0.0.1:9464`, `[::1]:9464`, `localhost:0`.
    static var listen: Self {
        let wanted = "'off' or host:port such as 127.0.0.1:9464 or [::1]:9464"
        return .init(name: "`off` or host:port", placeholder: .off, wanted: wanted) { text in
            if text == "off" { return .off }
            guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
                return nil
            }
            var host = String(text[..<colon])
            if host.hasPrefix("["), host.hasSuffix("]") {
                host = String(host.dropFirst().dropLast())
                guard AddressFamily(of: host) == .ipv6 else { return nil }
            } else if host.isEmpty || host.contains(where: { ":/ ".contains($0) }) {
                return nil
            }
            return .tcp(host: host, port: Int(port))
        }
    }
}

enum AddressFamily: Equatable {
    case ipv4
    case ipv6

    init?(of text: String) {
        var storage = in6_addr()
        if inet_pton(AF_INET, text, &storage) == 1 {
            self = .ipv4
        } else if inet_pton(AF_INET6, text, &storage) == 1 {
            self = .ipv6
        } else {
            return nil
        }
    }
}
