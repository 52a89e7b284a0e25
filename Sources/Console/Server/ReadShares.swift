/// How reading sessions are shared, so that neither one reader nor slow searches make everybody else wait.
///
/// One session is never used for searches, and one reader never holds all; at most half of them search for one reader.
package struct ReadShares: Sendable {
    /// The purpose of a session.
    package enum Use: Sendable {
        /// A query whose rows an index finds.
        case look
        /// A filter that may have to read any number of rows.
        case search
    }

    struct Claim: Sendable, Hashable {
        /// The reader; empty for the console itself.
        var reader: String
        var use: Use
    }

    private let (most, mostSearches, mostSearchesOfOne): (Int, Int, Int)
    private let mostWaiting = 32
    private var held: [Claim: Int] = [:]

    init(sessions: Int) {
        (most, mostSearches) = (max(1, sessions - 1), max(1, sessions - 1))
        mostSearchesOfOne = max(1, sessions / 2)
    }

    func allows(_ claim: Claim) -> Bool {
        guard !claim.reader.isEmpty else { return true }
        guard held(by: claim.reader) < most else { return false }
        guard claim.use == .search else { return true }
        let searches = held.lazy.filter { $0.key.use == .search }.map(\.value).reduce(0, +)
        return searches < mostSearches && held[claim, default: 0] < mostSearchesOfOne
    }

    /// Whether a claim may wait: no reader may fill the queue.
    func mayWait(_ claim: Claim, _ waiting: [Claim]) -> Bool {
        claim.reader.isEmpty || waiting.count { $0.reader == claim.reader } < mostWaiting
    }

    /// The next waiting claim: the first of the reader that holds fewest sessions; nil if none is within its share.
    func next(_ waiting: [Claim]) -> Int? {
        waiting.indices.filter { allows(waiting[$0]) }
            .min { held(by: waiting[$0].reader) < held(by: waiting[$1].reader) }
    }

    mutating func take(_ claim: Claim) { held[claim, default: 0] += 1 }

    mutating func giveBack(_ claim: Claim) {
        let left = held[claim, default: 0] - 1
        held[claim] = left > 0 ? left : nil
    }

    private func held(by reader: String) -> Int {
        held.lazy.filter { $0.key.reader == reader }.map(\.value).reduce(0, +)
    }
}
