import Telemetry
import Vocabulary

/// What all lanes of a dispatcher use.
struct DispatchShared: Sendable {
    let store: any DeliveryStore
    let settings: DispatchSettings
    /// The configured senders, by their index in ``UpstreamKit/IncomingMessage/sender``.
    let senderIDs: [String]
    let clock: TimeSource
    let report: DispatchReport
    let tracing: MessageTracing?
    let flush: @Sendable () -> Void
    let execute: DeliveryExecutor
    /// Wakes the loop that refreshes the operators' controls, and publishes pauses that handlers ask for.
    let controls = DispatchSignal()
    /// Set if the database doesn't know the registration.
    let registrationLost = DispatchSignal()

    /// The pauses between attempts while the database is unavailable.
    private static let retry = Backoff(initial: .milliseconds(100), maximum: .seconds(5))

    /// Calls the database once; nil if that failed, which is reported.
    func once<T>(_ body: () async throws(StoreError) -> T) async -> T? {
        do throws(StoreError) {
            return try await body()
        } catch {
            report.storeFailed(error, isFirst: false)
            return nil
        }
    }

    /// Retries until it succeeds; nil if cancelled.
    func untilDone<T>(_ body: () async throws(StoreError) -> T) async -> T? {
        var attempt = 0
        while true {
            do throws(StoreError) {
                let value = try await body()
                if attempt > 0 { report.recovered() }
                return value
            } catch {
                if Task.isCancelled { return nil }
                attempt += 1
                report.storeFailed(error, isFirst: attempt == 1)
                guard await pause(attempt) else { return nil }
            }
        }
    }

    /// Waits before another attempt; false if cancelled.
    func pause(_ attempt: Int) async -> Bool {
        (try? await clock.sleep(Self.retry.delay(attempt: attempt, random: clock.random()))) != nil
    }
}

/// An auto-reset event: wakes one waiting task; signals without a waiter coalesce into one.
package final class DispatchSignal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    package init() { (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    /// Wakes the waiting task, or else the next one to wait.
    package func set() { continuation.yield() }

    /// Ends every wait, after a signal that nobody has waited for.
    package func finish() { continuation.finish() }

    /// Waits for a signal, one task at a time; false once the signal is finished or the task was cancelled.
    package func wait() async -> Bool {
        var iterator = stream.makeAsyncIterator()
        return await iterator.next() != nil && !Task.isCancelled
    }
}
