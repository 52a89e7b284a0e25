/// What a run of `bench` measures.
struct BenchPlan: Sendable {
    var connections: [Int]
    var messages: Int
    var size: Int
    var window: Int
    var writers: Int
    var repeats: Int
    var parts: Set<BenchCommand.Part>
    /// The path of the bare C worker.
    var baseline: String?
    /// Messages per second of the paced run beside it; 0 for none.
    var paced: Int
    /// The measured handler, as a line of the configuration without name and categories.
    var handler: String
    var isQuick: Bool

    /// The number of messages for this many connections: one connection is bound by the round trip and needs fewer for
    /// the same time.
    func messages(connections: Int) -> Int { connections >= 10 ? messages : max(1000, messages * 2 / 5) }
}
