import NIOCore

/// Ack latencies of a sample of the generated messages.
struct LatencyBook {
    private let every: Int
    private var delivered: [Int: NIODeadline] = [:]
    private var seconds: [Double] = []

    init(every: Int) { self.every = max(1, every) }

    /// Notes a delivery; a redelivery restarts the measurement.
    mutating func delivered(_ sequence: Int) {
        guard sequence % every == 0 else { return }
        delivered[sequence] = .now()
    }

    mutating func acked(_ sequence: Int) {
        guard sequence % every == 0, let start = delivered.removeValue(forKey: sequence) else { return }
        seconds.append(Double((NIODeadline.now() - start).nanoseconds) * 1e-9)
    }

    mutating func take() -> [Double] {
        defer { seconds = [] }
        return seconds
    }
}
