package import NIOCore
import Vocabulary
import XMLWire
package import XMPP

/// Sees whether a stream can be bound, and closes it in order (`check --connect`).
package final class StreamProbe: StreamDelegate {
    package static var takesMessages: Bool { false }

    private let promise: EventLoopPromise<SessionEnd>

    init(_ promise: EventLoopPromise<SessionEnd>) { self.promise = promise }

    /// Connects once, and says how that ended.
    package static func run(_ settings: SenderSettings, on eventLoop: any EventLoop) async -> SessionEnd {
        let promise = eventLoop.makePromise(of: SessionEnd.self)
        var settings = settings
        // With the worker's resource it would end the worker's session.
        settings.stream = StreamSettings()
        StreamHandler.open(settings, on: eventLoop) { StreamProbe(promise) }
        return await promise.futureResult.value
    }

    package func bound(_ stream: BoundStream, on channel: any Channel) -> Bool { false }

    package func ended(_ end: SessionEnd) { promise.succeed(end) }
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
