/// A set of numbers from 0 that fill up roughly in order: a bit each, and nothing at all for the part that is full.
struct SequenceSet {
    private var words: [UInt64] = []
    /// Words before `words[0]`, all of them full and dropped.
    private var dropped = 0
    /// Words at the start of `words` that are full as well.
    private var full = 0

    /// How many numbers are in it.
    private(set) var count = 0

    /// Whether the number is in it.
    func contains(_ number: Int) -> Bool {
        let word = (number >> 6) - dropped
        guard word >= 0 else { return true }
        return word < words.count && words[word] & (1 << UInt64(number & 63)) != 0
    }

    /// Puts the number in.
    ///
    /// - Returns: Whether it was not in before.
    mutating func insert(_ number: Int) -> Bool {
        let word = (number >> 6) - dropped
        let bit: UInt64 = 1 << UInt64(number & 63)
        guard word >= 0 else { return false }
        while word >= words.count { words.append(0) }
        guard words[word] & bit == 0 else { return false }
        words[word] |= bit
        count += 1
        if word == full { advance() }
        return true
    }

    private mutating func advance() {
        while full < words.count, words[full] == .max { full += 1 }
        guard full >= 1024 else { return }
        words.removeFirst(full)
        dropped += full
        full = 0
    }
}
