import Glibc
import Logging
import Telemetry
import UnixSignals
import UpstreamConfiguration
import Vocabulary

/// Shuts down in order at the first signal, within the grace period, and exits at once at the second.
enum Shutdown {
    /// The time for closing the streams in order: 2 s for the peer's closing tag, and TLS's end.
    private static let goodbyes = Duration.milliseconds(2_500)

    /// Runs `body`; the first SIGTERM or SIGINT calls `begin`, which must make `body` return.
    ///
    /// If it has not returned shortly before the grace period ends, `giveUp` is called: the last moment for closing
    /// streams. Each SIGHUP calls `reload`, one after the other.
    static func onSignal<Value: Sendable>(
        grace: Duration,
        logger: Logger,
        _ body: @escaping @Sendable () async throws -> Value,
        begin: @escaping @Sendable () async -> Void,
        giveUp: @escaping @Sendable () async -> Void = {},
        reload: (@Sendable () -> Void)? = nil
    ) async throws -> Value {
        let hangups: UnixSignalsSequence? =
            if reload == nil { nil } else { await UnixSignalsSequence(trapping: .sighup) }
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                try await body()
            }
            if let hangups, let reload {
                group.addTask {
                    for await _ in hangups { await run(reload) }
                    return nil
                }
            }
            let (begun, hasBegun) = AsyncStream<Void>.makeStream()
            group.addTask {
                // The sequence allows only one iteration.
                var isFirst = true
                for await signal in signals {
                    let name: LogValue = .string("\(signal)")
                    guard isFirst else {
                        logger.event(.warning, .secondSignal, "a second signal: ending at once", [.signal: name])
                        endAtOnce(128 + (signal == .sigterm ? SIGTERM : SIGINT))
                    }
                    isFirst = false
                    logger.event(.notice, .draining, "shutting down", [.signal: name])
                    hasBegun.yield()
                    await begin()
                }
                return nil
            }
            group.addTask {
                for await _ in begun {
                    let goodbyes = min(Self.goodbyes, grace / 2)
                    guard (try? await Task.sleep(for: grace - goodbyes)) != nil else { break }
                    await giveUp()
                    await expire(after: goodbyes, of: grace, logger)
                }
                return nil
            }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
            }
            throw CancellationError()
        }
    }

    /// Runs `reload` to its end, unless the task is cancelled: a file that can't be read to its end, as on a network mount
    /// that is gone, must not keep the process from ending.
    private static func run(_ reload: @escaping @Sendable () -> Void) async {
        let end = Promise<Void>()
        let isStarted = DetachedThread.run(stack: nil) {
            reload()
            end.fulfil()
        }
        if isStarted { await end.waitUnlessCancelled() } else { reload() }
    }

    /// Ignores SIGHUP until ``onSignal(grace:logger:_:begin:giveUp:reload:)`` takes it: it would end the process.
    static func ignoreHangups() { signal(SIGHUP, SIG_IGN) }

    /// Returns with the next SIGINT or SIGTERM, or when the task is cancelled: for commands that only have to stop.
    static func signalled() async {
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { return }
    }

    /// Exits without `exit`'s handlers, which could wait for locks of other threads.
    static func endAtOnce(_ status: Int32) -> Never {
        DescriptorLogOutput.flushStandardError()
        _exit(status)
    }

    /// Ends the process when the grace period is over; nothing acked is lost, and nothing unacked was promised.
    private static func expire(after rest: Duration, of grace: Duration, _ logger: Logger) async {
        guard (try? await Task.sleep(for: rest)) != nil else { return }
        logger.event(
            .error,
            .graceExpired,
            "shutdown.grace is over; what was not acked will be sent again",
            [.durationSeconds: .seconds(grace)]
        )
        endAtOnce(ExitStatus.temporaryFailure.rawValue)
    }
}

enum ProgramLog {
    /// Directs all logging to stderr; returns the program's logger, and the adjustable level of all loggers.
    static func start(_ configuration: WorkerConfiguration) -> (logger: Logger, threshold: LogThreshold) {
        let format: LogFormat =
            switch configuration.logStyle {
            case .auto: .automatic
            case .json: .json
            case .text: .terminalText
            }
        let threshold = LogThreshold(configuration.logLevel)
        LoggingSystem.bootstrap { LineLogHandler(label: $0, threshold: threshold, format: format) }
        return (Logger(label: "upstream-worker"), threshold)
    }
}
