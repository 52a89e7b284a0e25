package import NIOCore

/// Where the trusted authorities of a client come from.
package enum TLSTrust: Sendable, Hashable {
    /// The distribution's trust store.
    case system
    /// A PEM file with one or more certificates; each of them is trusted, and nothing else.
    case file(String)
    /// The same as bytes.
    case pem([UInt8])
}

/// PEM text, in a file or in memory.
package enum PEMSource: Sendable, Hashable {
    /// The path of a PEM file.
    case file(String)
    /// PEM text.
    case bytes([UInt8])
}

/// A version of the protocol, with OpenSSL's number.
package enum TLSVersion: Int32, Sendable, Hashable, Comparable, CaseIterable {
    /// TLS 1.0; only a server made for a test can speak it.
    case v1_0 = 0x0301
    /// TLS 1.1; only a server made for a test can speak it.
    case v1_1 = 0x0302
    /// TLS 1.2.
    case v1_2 = 0x0303
    /// TLS 1.3.
    case v1_3 = 0x0304

    package static func < (left: TLSVersion, right: TLSVersion) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// A domain of XMPP, which certificates name in more ways than others.
package struct XMPPDomain: Sendable, Hashable {
    /// The name in ASCII: with A-labels.
    package var ascii: String
    /// The name as XMPP addresses have it: with U-labels, where it has any.
    package var unicode: String

    package init(ascii: String, unicode: String) {
        self.ascii = ascii
        self.unicode = unicode
    }
}

/// What a client shows to a server that asks for a certificate.
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

/// What a client expects of its peer: TLS 1.2 at least, a trusted chain, and the given name.
package struct TLSClientConfiguration: Sendable {
    /// The name the server's certificate must carry, also sent as SNI.
    ///
    /// A host name in ASCII (A-labels), or an IPv4 or IPv6 address, with or without brackets. An address is compared with
    /// the certificate's IP names, and no SNI is sent (RFC 6066 §3).
    package var serverName: String
    /// An XMPP domain that the certificate may carry as SRV-ID or XmppAddr instead (RFC 6120 section 13.7); nil for none.
    package var xmppDomain: XMPPDomain?
    /// What is shown to a server that asks for a certificate; nil for nothing.
    package var identity: TLSClientIdentity?
    /// The trusted authorities.
    package var trust: TLSTrust
    /// The protocol that is named by ALPN (RFC 7301), such as `xmpp-client` (XEP-0368 section 4); nil for none.
    ///
    /// A server that knows no ALPN is spoken with all the same.
    package var applicationProtocol: String?
    /// From the start of the handshake to its end; 10 s by default.
    package var handshakeTimeout: TimeAmount
    /// How long the peer's close_notify is waited for after ours; 2 s by default.
    package var closeTimeout: TimeAmount

    /// Makes a configuration; without a `caFile` the system's trust store is used.
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

/// What a server shows: its certificate, and the versions it speaks.
package struct TLSServerConfiguration: Sendable {
    /// The leaf certificate, followed by the intermediates, in PEM.
    package var certificateChain: PEMSource
    /// The leaf's private key in PEM, not encrypted.
    package var privateKey: PEMSource
    /// The lowest version spoken; TLS 1.2 by default.
    package var minimumVersion: TLSVersion
    /// The highest version spoken; TLS 1.3 by default.
    package var maximumVersion: TLSVersion
    /// OpenSSL's security level; nil leaves the system's default.
    ///
    /// Only a test has reason to set it: 0 lets a server speak TLS 1.1.
    package var securityLevel: Int32?
    /// From the start of the handshake to its end; 10 s by default.
    package var handshakeTimeout: TimeAmount
    /// How long the peer's close_notify is waited for after ours; 2 s by default.
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

    /// A server that shows what a ``CertificateAuthority`` issued.
    package init(_ identity: IssuedCertificate) {
        self.init(certificateChain: .bytes(identity.chainPEM), privateKey: .bytes(identity.keyPEM))
    }
}
