import Glibc

package struct NetworkAddress: Sendable, Hashable, CustomStringConvertible {
    /// The bytes in network order: 4 for IPv4, 16 for IPv6.
    package let bytes: [UInt8]

    /// Parses an address without zone or brackets; nil for anything else.
    ///
    /// IPv4 only with four decimal numbers: `127.1` is left to the resolver, whose answer is then checked.
    package init?(_ text: String) {
        var storage = in6_addr()
        let family = text.utf8.contains(UInt8(ascii: ":")) ? AF_INET6 : AF_INET
        guard inet_pton(family, text, &storage) == 1 else { return nil }
        bytes = withUnsafeBytes(of: storage) { Array($0.prefix(family == AF_INET6 ? 16 : 4)) }
    }

    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    package var isIPv6: Bool { bytes.count == 16 }

    package var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_ntop(isIPv6 ? AF_INET6 : AF_INET, bytes, &text, socklen_t(text.count)) != nil else {
            return "?"
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The IPv4 address embedded in an IPv6 address, where packets may end up: mapped (`::ffff:0:0/96`), compatible
    /// (`::/96`), NAT64 (`64:ff9b::/96`, RFC 6052) or 6to4 (`2002::/16`); nil for others.
    package var embeddedIPv4: NetworkAddress? {
        guard isIPv6 else { return nil }
        let tail = NetworkAddress(bytes: Array(bytes[12...]))
        let zeros = [UInt8](repeating: 0, count: 10)
        if bytes.starts(with: zeros), bytes[10] == bytes[11], bytes[10] == 0 || bytes[10] == 0xFF { return tail }
        if bytes.starts(with: [0, 0x64, 0xFF, 0x9B] + zeros.prefix(8)) { return tail }
        if bytes.starts(with: [0x20, 0x02]) { return NetworkAddress(bytes: Array(bytes[2..<6])) }
        return nil
    }
}

extension NetworkAddress {
    /// Whether packets to it never leave this machine: `127.0.0.0/8`, `::1` and `::ffff:127.0.0.0/104`.
    package var isLoopback: Bool {
        guard isIPv6 else { return bytes.first == 127 }
        return bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 || mappedIPv4?.bytes.first == 127
    }

    /// The IPv4 address of an IPv4-mapped one (`::ffff:0:0/96`, RFC 4291 section 2.5.5.2); nil for others.
    ///
    /// The same host; the other forms of ``embeddedIPv4`` lead through a translator or a tunnel.
    package var mappedIPv4: NetworkAddress? {
        guard isIPv6, bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF else {
            return nil
        }
        return NetworkAddress(bytes: Array(bytes[12...]))
    }
}

/// A range of addresses: an address and a prefix length (CIDR).
package struct Network: Sendable, Hashable {
    private let address: NetworkAddress
    private let prefix: Int

    /// Parses `10.0.0.0/8` or `fd00::/8`; nil for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let address = NetworkAddress(String(parts[0])), let prefix = Int(parts[1]),
            (0...address.bytes.count * 8).contains(prefix)
        else { return nil }
        (self.address, self.prefix) = (address, prefix)
    }

    /// Whether the network contains an address; false for another family.
    package func contains(_ other: NetworkAddress) -> Bool {
        guard address.bytes.count == other.bytes.count else { return false }
        let whole = prefix / 8
        guard address.bytes.prefix(whole) == other.bytes.prefix(whole) else { return false }
        let mask = UInt8(truncatingIfNeeded: 0xFF00 >> (prefix % 8))
        return prefix % 8 == 0 || address.bytes[whole] & mask == other.bytes[whole] & mask
    }
}
