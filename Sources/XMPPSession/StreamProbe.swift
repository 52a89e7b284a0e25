package import NIOCore
import Vocabulary
package import XMPP

package struct ProbeReport: Sendable {
    package var end: SessionEnd
    /// The TLS version by OpenSSL's name; nil if TLS was not established.
    package var tlsVersion: String?
    /// The seconds until the server's certificate expires; nil if TLS was not established.
    package var certificateEnd: Int?
    /// The sign-in, with the server's offers; nil if it failed.
    package var signIn: SignIn?
    package var stream: BoundStream?
}

/// Checks that a stream can be bound, and closes it properly (`check --connect`).
package final class StreamProbe: StreamDelegate {
    package static var takesMessages: Bool { false }

    private let promise: EventLoopPromise<ProbeReport>
    private var tlsVersion: String?
    private var certificateEnd: Int?
    private var signIn: SignIn?
    private var stream: BoundStream?

    init(_ promise: EventLoopPromise<ProbeReport>) { self.promise = promise }

    package static func run(_ settings: SenderSettings, on eventLoop: any EventLoop) async -> ProbeReport {
        let promise = eventLoop.makePromise(of: ProbeReport.self)
        var settings = settings
        // With the worker's resource it would end the worker's session.
        settings.stream.resource = nil
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
        var report = ProbeReport(end: end, tlsVersion: tlsVersion, certificateEnd: certificateEnd)
        (report.signIn, report.stream) = (signIn, stream)
        promise.succeed(report)
    }
}

extension EventLoopFuture where Value: Sendable {
    /// The value of a future whose promise is only ever succeeded.
    var value: Value {
        get async {
            let promise = Promise<Value>()
            whenSuccess { promise.fulfil($0) }
            return await promise.value
        }
    }
}
