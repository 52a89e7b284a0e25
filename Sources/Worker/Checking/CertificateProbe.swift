import ConfigurationKeys
import Handlers
import NIOCore
import NIOPosix
import TLSWire
import UpstreamConfiguration
import Vocabulary

extension ProbeSequence {
    /// The step about the console: when its certificate expires.
    static func console(certificateFile: String) -> ProbeSequence {
        ProbeSequence(
            "console",
            [
                Probe("certificate") {
                    CertificateProbe.check(
                        file: certificateFile,
                        fix: "renew console.tls.certificate_file, then restart the console"
                    )
                }
            ]
        )
    }
}

/// Finds when certificates expire that no stream shows: those in files, and those of webhooks' servers.
enum CertificateProbe {
    /// Why a server's certificate is unknown.
    enum Failure: Error {
        /// No connection was made, or it broke.
        case unreachable(String)
        /// The certificate is not trusted, or is for another name.
        case refused(String)
    }

    /// The seconds until the certificate of a webhook's server expires; connects without sending anything.
    static func remaining(_ webhook: WebhookConfiguration) async throws(Failure) -> Int {
        guard let endpoint = WebhookEndpoint(webhook.url), let port = endpoint.tlsPort else {
            throw .unreachable("no https endpoint")
        }
        let policy = NetworkPolicy(allowed: webhook.allowedNetworks.compactMap(Network.init))
        guard case .allowed(let addresses) = await WebhookProbe.run(endpoint, policy: policy),
            let address = addresses.first
        else { throw .unreachable("its host has no address that requests may go to") }
        var tls = TLSClientConfiguration(
            serverName: endpoint.host,
            caFile: webhook.caFile,
            handshakeTimeout: .seconds(5)
        )
        if let file = webhook.certificateFile, let key = webhook.keyFile {
            tls.identity = TLSClientIdentity(certificateChain: .file(file), privateKey: .file(key.path))
        }
        do {
            let context = try TLSContext.client(tls)
            return try await shown(at: address.description, port, context)
        } catch let error as TLSError where error.code == .truncated {
            throw .unreachable(error.message)
        } catch let error as TLSError {
            throw .refused(error.message)
        } catch {
            throw .unreachable("\(error)")
        }
    }

    private static func shown(at address: String, _ port: Int, _ context: TLSContext) async throws -> Int {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: Int.self)
        ClientBootstrap(group: loop).connectTimeout(.seconds(5))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandlers([TLSHandler(context: context), CertificateReader(promise)])
                }
            }
            .connect(host: address, port: port)
            .whenFailure { promise.fail($0) }
        return try await promise.futureResult.get()
    }

    /// Reports on the certificate of a webhook's server.
    static func check(_ webhook: WebhookConfiguration) async -> Probe.Result {
        do throws(Failure) {
            let end = try await remaining(webhook)
            return judged(end, "the endpoint's certificate", fix: "whoever runs the endpoint has to renew it")
        } catch {
            switch error {
            case .unreachable(let reason):
                return .warned(
                    cause: "no connection to the endpoint, whose certificate could not be seen: \(reason)",
                    fix: "see that it runs and can be reached from here; its messages wait meanwhile"
                )
            case .refused(let reason):
                return .failed(
                    cause: reason,
                    fix: "renew the endpoint's certificate, or name its authority in webhook.ca_file",
                    status: .protocolError
                )
            }
        }
    }

    /// Reports when a file's certificate expires.
    static func check(file: String, fix: String) -> Probe.Result {
        do throws(TLSError) {
            return judged(try CertificateEnd.remaining(.file(file)), "the certificate in \(file)", fix: fix)
        } catch {
            return .warned(cause: error.message, fix: "let this user read it: a certificate is no secret")
        }
    }

    private static func judged(_ end: Int, _ what: String, fix: String) -> Probe.Result {
        let text = "\(what) \(Amount.ending(end))"
        return end < CertificateWatch.warning ? .warned(cause: text, fix: fix) : .passed(detail: text)
    }
}

/// Waits for the end of the handshake, then closes the connection.
private final class CertificateReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let promise: EventLoopPromise<Int>

    init(_ promise: EventLoopPromise<Int>) { self.promise = promise }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .established? = event as? TLSEvent else { return }
        let tls = try? context.pipeline.syncOperations.handler(type: TLSHandler.self)
        if let end = tls?.peerCertificateEnd {
            promise.succeed(end)
        } else {
            promise.fail(ChannelError.inputClosed)
        }
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        promise.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // The first outcome counts.
        promise.fail(ChannelError.eof)
    }
}
