import XMLWire

/// A server's grant of resumption, in its `<enabled/>` (XEP-0198 section 3).
package struct ResumptionGrant: Sendable, Equatable {
    /// The longest id that is kept, in bytes.
    static let idLimit = 4_000

    /// The session's id (`id`), which `<resume/>` repeats; UTF-8.
    package let id: [UInt8]
    /// How long the server holds the session of a lost connection (`max`); nil if it does not say.
    package let longest: Duration?
    /// The server's preferred host for resuming (`location`), made safe for a log; nil if it does not say.
    package let location: String?

    /// Reads an `<enabled/>`; nil if the session can't be resumed.
    init?(_ element: Stanza) {
        guard let resume = element.attribute("resume", of: 0),
            element.equals(resume, "true") || element.equals(resume, "1"),
            let id = element.attribute("id", of: 0), (1...ResumptionGrant.idLimit).contains(id.count)
        else { return nil }
        self.id = Array(element.bytes[id])
        longest = element.attribute("max", of: 0)
            .flatMap { StreamManagement.counter(element.bytes[$0]) }.map { .seconds(Int64($0)) }
        location = element.attribute("location", of: 0).map { PeerText.host(element.bytes[$0]) }
    }
}
