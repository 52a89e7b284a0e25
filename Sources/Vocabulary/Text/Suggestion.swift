/// Finds the intended name for a mistyped one.
package enum Suggestion {
    /// The candidate with the fewest edits, if few enough for a typing mistake.
    package static func nearest(to name: String, among candidates: [String]) -> String? {
        let allowed = max(1, min(3, name.count / 3))
        return candidates.map { (candidate: $0, edits: edits(name.lowercased(), $0.lowercased())) }
            .filter { $0.edits <= allowed }
            .min { ($0.edits, $0.candidate) < ($1.edits, $1.candidate) }?
            .candidate
    }

    /// The Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of neighbours.
    static func edits(_ left: String, _ right: String) -> Int {
        let left = Array(left.utf8.prefix(80))
        let right = Array(right.utf8.prefix(80))
        var before: [Int] = []
        var last = Array(0...right.count)
        for (row, byte) in left.enumerated() {
            var next = [row + 1]
            for (column, other) in right.enumerated() {
                var cost = min(last[column] + (byte == other ? 0 : 1), last[column + 1] + 1, next[column] + 1)
                if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
                    cost = min(cost, before[column - 1] + 1)
                }
                next.append(cost)
            }
            before = last
            last = next
        }
        return last[right.count]
    }
}
