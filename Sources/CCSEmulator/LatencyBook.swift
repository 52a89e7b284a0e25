import NIOCore

/// How long acks take, for a sample of the generated messages of one run.
struct LatencyBook {
    private let every: Int
    private var delivered: [Int: NIODeadline] = [:]
    private var seconds: [Double] = []

    /// A book on every so-manyth message.
    init(every: Int) {
        self.every = max(1, every)
    }

    /// A message goes out; a redelivery counts from itself.
    mutating func delivered(_ sequence: Int) {
        guard sequence % every == 0 else { return }
        delivered[sequence] = .now()
    }

    /// A copy of the message was acked.
    mutating func acked(_ sequence: Int) {
        guard sequence % every == 0, let start = delivered.removeValue(forKey: sequence) else { return }
        seconds.append(Double((NIODeadline.now() - start).nanoseconds) * 1e-9)
    }

    /// Gives away what was noted.
    mutating func take() -> [Double] {
        defer { seconds = [] }
        return seconds
    }
}
