/// Sizes of the pieces in which answers are read and made, which bound the memory of each request.
enum AnswerBounds {
    /// A page of a list, in bytes as stored.
    static let page = 2 << 20
    /// What a stream or an export reads at a time, in bytes; one such piece may wait for a slow client.
    static let part = 256 << 10
    /// The messages that a stream begins with, in bytes.
    static let beginning = 512 << 10
}
