import COpenSSL
import NIOCore
import NIOEmbedded
import Testing
import Vocabulary

@testable import TLSWire

/// What led to a peer's certificate is of no use once the peer is verified.
@Suite(.timeLimit(.minutes(5))) struct CertificateChainTests {
    @Test(
        "after the handshake the peer's own certificate alone is kept, and the connection works on",
        arguments: [TLSVersion.v1_2, .v1_3]
    )
    func forgotten(version: TLSVersion) throws {
        let pair = try Pair(maximumVersion: version)
        try pair.connect()
        let client = try pair.client.pipeline.syncOperations.handler(type: TLSHandler.self)
        #expect(upstream_ssl_chain_count(client.connection.ssl) == 0)
        #expect(client.channelBindings.contains { $0.kind == .endPoint })

        let written = pair.write("hello")
        try pair.exchange()
        try pair.settled(written)
        #expect(String(decoding: pair.serverSeen.seen.bytes, as: UTF8.self) == "hello")
        pair.abandon()
    }
}
