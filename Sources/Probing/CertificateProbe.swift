import NIOCore
import NIOPosix
package import TLSWire
package import Vocabulary

/// Finds when certificates expire that no stream shows: those in files, and those of servers.
package enum CertificateProbe {
    /// The remaining validity, in seconds, from which on it warns: two weeks are left to renew it.
    package static let warning = 14 * 86_400

    /// Why a server's certificate is unknown.
    package enum Failure: Error {
        /// No connection was made, or it broke.
        case unreachable(String)
        /// The certificate is not trusted, or is for another name.
        case refused(String)
    }

    /// The seconds until a server's certificate expires; connects without sending anything.
    package static func remaining(
        at address: NetworkAddress,
        _ port: Int,
        _ tls: TLSClientConfiguration
    ) async throws(Failure) -> Int {
        do {
            let context = try TLSContext.client(tls)
            return try await shown(at: address.description, port, context)
        } catch let error as TLSError where error.isOfConnection {
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

    package static func check(file: String, fix: String) -> Probe.Result {
        do throws(TLSError) {
            return judge(try CertificateEnd.remaining(.file(file)), "the certificate in \(file)", fix: fix)
        } catch {
            return .warned(cause: error.message, fix: "let this user read it: a certificate is no secret")
        }
    }

    /// Reports when a certificate expires, in so many seconds.
    package static func judge(_ end: Int, _ what: String, fix: String) -> Probe.Result {
        let text = "\(what) \(Amount.ending(end))"
        return end < warning ? .warned(cause: text, fix: fix) : .passed(detail: text)
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
