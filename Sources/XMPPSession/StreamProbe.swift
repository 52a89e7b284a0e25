package import NIOCore
import Vocabulary
import XMLWire
package import XMPP

/// What a probe has seen of a server.
package struct ProbeReport: Sendable {
    /// How the connection ended.
    package var end: SessionEnd
    /// The version of TLS, as OpenSSL names it; nil where it was not established.
    package var tlsVersion: String?
    /// When the server's certificate ends, in seconds from now; nil where TLS was not established.
    package var certificateEnd: Int?
    /// How the server was signed in to, and what it offered; nil where that failed.
    package var signIn: SignIn?
    /// The stream; nil where it was not bound.
    package var stream: BoundStream?
}

/// Sees whether a stream can be bound, and closes it in order (`check --connect`).
package final class StreamProbe: StreamDelegate {
    package static var takesMessages: Bool { false }

    private let promise: EventLoopPromise<ProbeReport>
    private var tlsVersion: String?
    private var certificateEnd: Int?
    private var signIn: SignIn?
    private var stream: BoundStream?

    init(_ promise: EventLoopPromise<ProbeReport>) { self.promise = promise }

    /// Connects once, and says how that went.
    package static func run(_ settings: SenderSettings, on eventLoop: any EventLoop) async -> ProbeReport {
        let promise = eventLoop.makePromise(of: ProbeReport.self)
        var settings = settings
        // With the worker's resource it would end the worker's session.
        settings.stream = StreamSettings()
        StreamHandler.open(settings, on: eventLoop) { StreamProbe(promise) }
        return await promise.futureResult.value
    }

    package func bound(_ stream: BoundStream, on channel: any Channel) -> Bool {
        self.stream = stream
        return false
    }

    package func noticed(_ notice: StreamNotice) {
        switch notice {
        case .encrypted(let version, _, let end): (tlsVersion, certificateEnd) = (version, end)
        case .signedIn(let signIn): self.signIn = signIn
        default: break
        }
    }

    package func ended(_ end: SessionEnd) {
        promise.succeed(
            ProbeReport(
                end: end,
                tlsVersion: tlsVersion,
                certificateEnd: certificateEnd,
                signIn: signIn,
                stream: stream
            )
        )
    }
}

extension EventLoopFuture where Value: Sendable {
    /// The value of a future whose promise is only ever succeeded.
    var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                whenSuccess { continuation.resume(returning: $0) }
            }
        }
    }
}
