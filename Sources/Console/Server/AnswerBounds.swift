/// How large the pieces are that answers are read and made in: what is in memory for each request that is under way.
enum AnswerBounds {
    /// The bytes of a list's page, as they are stored.
    static let page = 2 << 20
    /// The bytes that a stream or an export reads at a time, of which each may hold one while its client takes nothing.
    static let part = 256 << 10
    /// The bytes of the messages that a stream begins with.
    static let beginning = 512 << 10
}
