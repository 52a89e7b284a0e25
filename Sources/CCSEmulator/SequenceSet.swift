/// A set of numbers from 0 that fills up roughly in order: a bit each, and nothing for the full prefix.
struct SequenceSet {
    private var words: [UInt64] = []
    /// The number of full words dropped before `words[0]`.
    private var dropped = 0
    private(set) var count = 0

    func contains(_ number: Int) -> Bool {
        let word = (number >> 6) - dropped
        guard word >= 0 else { return true }
        return word < words.count && words[word] & (1 << UInt64(number & 63)) != 0
    }

    /// Inserts a number, and returns whether it is new.
    mutating func insert(_ number: Int) -> Bool {
        let word = (number >> 6) - dropped
        let bit: UInt64 = 1 << UInt64(number & 63)
        guard word >= 0 else { return false }
        while word >= words.count { words.append(0) }
        guard words[word] & bit == 0 else { return false }
        words[word] |= bit
        count += 1
        if words[0] == .max {
            let full = words.prefix { $0 == .max }.count
            words.removeFirst(full)
            dropped += full
        }
        return true
    }
}
