package import NIOCore

extension Emulator {
    package func snapshot() async throws -> EmulatorSnapshot { try await onLoop { $0.snapshot } }

    /// Waits until a condition holds, checking after every change; `what` describes it for the error.
    package func wait(
        for what: String,
        limit: TimeAmount = .seconds(10),
        until condition: @escaping @Sendable (EmulatorSnapshot) -> Bool
    ) async throws {
        guard try await !onLoop(awaiting: { $0.wait(limit, condition) }) else { return }
        let tally = await tally()
        throw EmulatorError(message: "not within \(limit.nanoseconds / 1_000_000) ms: \(what)\n\(tally.summary)")
    }

    package func waitUntilComplete(limit: TimeAmount = .seconds(30)) async throws {
        try await wait(for: "every message acked", limit: limit) { $0.isComplete }
    }

    /// The latencies in seconds from delivery to first ack, measured since the last call.
    package func takeLatencies() async throws -> [Double] { try await onLoop { $0.latency?.take() ?? [] } }
}
