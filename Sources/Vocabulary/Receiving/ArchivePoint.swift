/// A place in a server's archive (XEP-0313): what comes before it has been received.
package struct ArchivePoint: Sendable, Equatable {
    /// The archive's id of the last message before it; nil for a place known by its time alone.
    package var id: String?
    /// When the archive stored that message, by the server's clock; nil if unknown.
    package var time: Timestamp?

    package init(id: String? = nil, time: Timestamp? = nil) {
        (self.id, self.time) = (id, time)
    }
}

/// How a walk through an archive has ended.
package enum ArchiveEnd: Sendable, Equatable {
    /// The archive holds no more.
    case complete
    /// It holds more, for the next walk.
    case interrupted
}
