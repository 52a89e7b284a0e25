package import NIOCore

/// PEM text, in a file or in memory.
package enum PEMSource: Sendable, Hashable {
    case file(String)
    case pem([UInt8])
}

/// A protocol version, with OpenSSL's number.
package enum TLSVersion: Int32, Sendable {
    /// For servers in tests only, as `v1_1`.
    case v1_0 = 0x0301
    case v1_1 = 0x0302
    case v1_2 = 0x0303
    case v1_3 = 0x0304
}

/// A certificate to show, and its key.
package struct TLSIdentity: Sendable, Hashable {
    /// The certificate, followed by the intermediates, in PEM.
    package var certificateChain: PEMSource
    /// Its private key in PEM, not encrypted.
    package var privateKey: PEMSource

    package init(certificateChain: PEMSource, privateKey: PEMSource) {
        self.certificateChain = certificateChain
        self.privateKey = privateKey
    }

    /// A certificate that a ``CertificateAuthority`` issued.
    package init(_ issued: IssuedCertificate) {
        self.init(certificateChain: .pem(issued.chainPEM), privateKey: .pem(issued.keyPEM))
    }
}

/// A client's requirements: TLS 1.2 at least, a trusted chain, and the given name.
package struct TLSClientConfiguration: Sendable {
    /// The name that the server's certificate must carry, also sent as SNI.
    ///
    /// A host name in ASCII (A-labels), or an IPv4 or IPv6 address, with or without brackets. An address is compared
    /// with the certificate's IP names, and no SNI is sent (RFC 6066 §3).
    package var serverName: String
    /// An XMPP domain that the certificate may name instead, as SRV-ID or XmppAddr (RFC 6120 section 13.7): with A-labels,
    /// and as in XMPP addresses, with U-labels if it has any.
    package var xmppDomain: (ascii: String, unicode: String)?
    /// The client certificate, for servers that ask for one.
    package var identity: TLSIdentity?
    /// The only authorities trusted; nil for the system's trust store.
    package var trust: PEMSource?
    /// The protocol to name by ALPN (RFC 7301, XEP-0368 section 4); a server without ALPN is accepted too.
    package var applicationProtocol: String?
    package var handshakeTimeout: TimeAmount
    /// How long to wait for the peer's close_notify after ours.
    package var closeTimeout = TimeAmount.seconds(2)
    /// The part of the configuration whose keys errors name.
    let section: String

    package init(
        serverName: String,
        caFile: String? = nil,
        section: String = "tls",
        applicationProtocol: String? = nil,
        handshakeTimeout: TimeAmount = .seconds(10)
    ) {
        self.serverName = serverName
        self.trust = caFile.map { .file($0) }
        self.section = section
        self.applicationProtocol = applicationProtocol
        self.handshakeTimeout = handshakeTimeout
    }
}

/// A server's certificate and versions.
package struct TLSServerConfiguration: Sendable {
    package var identity: TLSIdentity
    package var minimumVersion = TLSVersion.v1_2
    package var maximumVersion = TLSVersion.v1_3
    /// Whether only suites are spoken with which a key that becomes known later opens no recorded traffic.
    package var needsForwardSecrecy = false
    /// OpenSSL's security level, nil for the system's default; for tests, where 0 lets a server speak TLS 1.1.
    package var securityLevel: Int32?

    package init(_ identity: TLSIdentity) { self.identity = identity }

    package init(_ issued: IssuedCertificate) { self.init(TLSIdentity(issued)) }
}
