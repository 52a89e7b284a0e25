package import NIOCore

/// The authorities that a client trusts.
package enum TLSTrust: Sendable, Hashable {
    /// The distribution's trust store.
    case system
    /// A PEM file with one or more certificates; only these are trusted.
    case file(String)
    /// The same as bytes.
    case pem([UInt8])
}

/// PEM text, in a file or in memory.
package enum PEMSource: Sendable, Hashable {
    case file(String)
    case bytes([UInt8])
}

/// A protocol version, with OpenSSL's number.
package enum TLSVersion: Int32, Sendable, Hashable, Comparable, CaseIterable {
    /// For servers in tests only.
    case v1_0 = 0x0301
    /// For servers in tests only.
    case v1_1 = 0x0302
    case v1_2 = 0x0303
    case v1_3 = 0x0304

    package static func < (left: TLSVersion, right: TLSVersion) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// An XMPP domain, which certificates can name in more ways than other domains.
package struct XMPPDomain: Sendable, Hashable {
    /// The name in ASCII, with A-labels.
    package var ascii: String
    /// The name as in XMPP addresses, with U-labels if it has any.
    package var unicode: String

    package init(ascii: String, unicode: String) {
        self.ascii = ascii
        self.unicode = unicode
    }
}

/// A client's certificate for servers that ask for one.
package struct TLSClientIdentity: Sendable, Hashable {
    /// The certificate, followed by the intermediates, in PEM.
    package var certificateChain: PEMSource
    /// Its private key in PEM, not encrypted.
    package var privateKey: PEMSource

    package init(certificateChain: PEMSource, privateKey: PEMSource) {
        self.certificateChain = certificateChain
        self.privateKey = privateKey
    }
}

/// A client's requirements: TLS 1.2 at least, a trusted chain, and the given name.
package struct TLSClientConfiguration: Sendable {
    /// The name that the server's certificate must carry, also sent as SNI.
    ///
    /// A host name in ASCII (A-labels), or an IPv4 or IPv6 address, with or without brackets. An address is compared
    /// with the certificate's IP names, and no SNI is sent (RFC 6066 §3).
    package var serverName: String
    /// An XMPP domain that the certificate may name instead, as SRV-ID or XmppAddr (RFC 6120 section 13.7); nil for
    /// none.
    package var xmppDomain: XMPPDomain?
    /// The client certificate; nil for none.
    package var identity: TLSClientIdentity?
    package var trust: TLSTrust
    /// The protocol to name by ALPN (RFC 7301), such as `xmpp-client` (XEP-0368 section 4); nil for none.
    ///
    /// A server without ALPN is accepted too.
    package var applicationProtocol: String?
    /// The time limit of the handshake; 10 s by default.
    package var handshakeTimeout: TimeAmount
    /// How long to wait for the peer's close_notify after ours; 2 s by default.
    package var closeTimeout: TimeAmount

    /// A configuration; without a `caFile` it uses the system's trust store.
    package init(
        serverName: String,
        caFile: String? = nil,
        applicationProtocol: String? = nil,
        handshakeTimeout: TimeAmount = .seconds(10),
        closeTimeout: TimeAmount = .seconds(2)
    ) {
        self.serverName = serverName
        self.trust = caFile.map { .file($0) } ?? .system
        self.applicationProtocol = applicationProtocol
        self.handshakeTimeout = handshakeTimeout
        self.closeTimeout = closeTimeout
    }
}

/// A server's certificate and versions.
package struct TLSServerConfiguration: Sendable {
    /// The leaf certificate, followed by the intermediates, in PEM.
    package var certificateChain: PEMSource
    /// The leaf's private key in PEM, not encrypted.
    package var privateKey: PEMSource
    /// The lowest version spoken; TLS 1.2 by default.
    package var minimumVersion: TLSVersion
    /// The highest version spoken; TLS 1.3 by default.
    package var maximumVersion: TLSVersion
    /// OpenSSL's security level, nil for the system's default; for tests, where 0 lets a server speak TLS 1.1.
    package var securityLevel: Int32?
    /// The time limit of the handshake; 10 s by default.
    package var handshakeTimeout: TimeAmount
    /// How long to wait for the peer's close_notify after ours; 2 s by default.
    package var closeTimeout: TimeAmount

    package init(
        certificateChain: PEMSource,
        privateKey: PEMSource,
        minimumVersion: TLSVersion = .v1_2,
        maximumVersion: TLSVersion = .v1_3,
        securityLevel: Int32? = nil,
        handshakeTimeout: TimeAmount = .seconds(10),
        closeTimeout: TimeAmount = .seconds(2)
    ) {
        self.certificateChain = certificateChain
        self.privateKey = privateKey
        self.minimumVersion = minimumVersion
        self.maximumVersion = maximumVersion
        self.securityLevel = securityLevel
        self.handshakeTimeout = handshakeTimeout
        self.closeTimeout = closeTimeout
    }

    /// A server with a certificate that a ``CertificateAuthority`` issued.
    package init(_ identity: IssuedCertificate) {
        self.init(certificateChain: .bytes(identity.chainPEM), privateKey: .bytes(identity.keyPEM))
    }
}
