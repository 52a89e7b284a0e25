import IntegrationSupport
import NIOCore
import NIOPosix
import Telemetry
import Testing

extension Integration {
    /// A server that sends the worker elsewhere (`see-other-host`).
    @Suite struct RedirectionTests {
        /// Answers every stream with a redirection, in the clear: nobody has to prove anything for that.
        private final class Redirector: ChannelInboundHandler, Sendable {
            typealias InboundIn = ByteBuffer
            typealias OutboundOut = ByteBuffer

            private let place: String

            init(_ place: String) { self.place = place }

            func channelRead(context: ChannelHandlerContext, data: NIOAny) {
                let answer =
                    "<stream:stream from='\(StandardServer.domain)' id='1' version='1.0' xmlns='jabber:client' "
                    + "xmlns:stream='http://etherx.jabber.org/streams'><stream:error>"
                    + "<see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>\(place)</see-other-host>"
                    + "</stream:error></stream:stream>"
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
                context.close(promise: nil)
            }
        }

        @Test(
            "a redirection is followed to a host that is listed, with the same TLS, and to no other",
            arguments: [(true, StandardServer.domain), (true, "other.test"), (false, StandardServer.domain)]
        )
        func seeOtherHost(_ isListed: Bool, _ name: String) async throws {
            try await ServerScenario.run(.prosody) { scenario in
                let port = scenario.server.ports.startTLS
                let redirector = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .childChannelInitializer { channel in
                        channel.pipeline.addHandler(Redirector("127.0.0.1:\(port)"))
                    }
                    .bind(host: "127.0.0.1", port: 0).get()
                let yaml = try scenario.yaml(mode: "starttls")
                    .replacing(
                        "    port: \(port)\n",
                        with: "    port: \(try #require(redirector.localAddress?.port))\n"
                    )
                    .replacing(
                        "    dialect: xmpp\n",
                        with:
                            "    dialect: xmpp\n    redirect_hosts: [\"\(isListed ? "127.0.0.1:\(port)" : "127.0.0.2")\"]\n"
                    )
                    .replacing("tls: {mode: starttls,", with: "tls: {mode: starttls, server_name: \(name),")
                let worker = try LocalWorker(yaml: yaml)
                do {
                    if isListed && name == StandardServer.domain {
                        try scenario.device.send(["1"])
                        try await scenario.waitForAcks(["1"])
                    } else {
                        // What the server there proves is judged as anywhere: a name that it has no certificate for is refused.
                        let wanted: ReconnectReason = isListed ? .tlsFailed : .streamError
                        try await waitUntil("it is refused more than once") {
                            worker.metrics.reconnects[wanted].value >= 2
                        }
                        #expect(worker.metrics.connections(sender: 0, state: .bound).value == 0)
                        #expect(isListed || worker.metrics.reconnects[.tlsFailed].value == 0)
                        #expect(!worker.logs.lines.contains { $0.contains("stream.bound") })
                    }
                } catch {
                    await worker.abandon()
                    throw error
                }
                try await worker.stop()
                try await redirector.close()
            }
        }
    }
}
