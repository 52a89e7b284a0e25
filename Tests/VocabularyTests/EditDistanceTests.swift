import Testing

@testable import Vocabulary

@Suite("edit distance")
struct EditDistanceTests {
    @Test(
        "The edit distance counts insertions, deletions, replacements and swaps",
        arguments: [("connections", "conections", 1), ("ab", "ba", 1), ("", "abc", 3), ("kitten", "sitting", 3)]
    )
    func edits(left: String, right: String, count: Int) {
        #expect(Suggestion.edits(left, right) == count)
    }
}
