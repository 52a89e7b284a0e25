import Vocabulary
package import XMLWire

/// Stream management (XEP-0198) on one stream, as a pure value: how far we answer for received stanzas, and how many of
/// ours the server has (drawn in docs/state-machines.md); all counts are modulo 2^32.
///
/// The server keeps every stanza until `h` covers it, and stores the rest when the session ends. So `h` counts only the
/// stanzas before the first uncommitted message: whatever kills this process, the server has what the database has not.
/// A message that stays in the offline store until we remove it counts as soon as it comes.
///
/// Our own stanzas are counted from the request on, and the server is asked how many it has (`<r/>`) whenever
/// ``askAfter`` more are unknown, also before it has answered: a slow server's answers show that it goes on. An `h` that
/// goes back, or beyond what was sent, ends the stream.
package struct StreamManagement: Sendable, Equatable {
    package enum Offer: Sendable, Equatable {
        /// None, and none expected: a CCS, or a component's connection.
        case unused
        /// None from a standard server.
        case missing
        case offered
    }

    /// The outcome of the request for stream management.
    package enum Outcome: Sendable, Equatable {
        /// The server keeps what `h` does not cover.
        case enabled
        case missing
        /// The server refused the request after offering it, with this condition.
        case refused(StanzaErrorCondition)
    }

    /// The next step after a top-level element.
    enum ElementAction: Equatable {
        /// Nothing: it is not part of stream management.
        case none
        /// Nothing: it is part of stream management, but needs no answer.
        case ignore
        case send([UInt8])
        case decided(Outcome)
        /// The server's `h` is impossible: end the stream with this error, whose bytes end with our closing tag.
        case refuse([UInt8])
    }

    /// The server's answer to `<resume/>`.
    package enum ResumptionAnswer: Sendable, Equatable {
        /// Not an answer.
        case none
        /// The stream continues: the server has this many of our stanzas, modulo 2^32.
        case resumed(confirmed: UInt32)
        /// The session is gone: bind a new one on this stream.
        case refused(StanzaErrorCondition)
        /// The answer is about another session, or its count is impossible: nothing on this stream can be relied on.
        case invalid
    }

    private enum State: Equatable {
        /// Nothing is counted. The last state.
        case off
        /// `<enable/>` is sent; what comes before the answer is not counted. To `active`, `off`.
        case requested
        /// Stanzas are counted, until the stream's end and, if it is resumed, beyond.
        case active
    }

    /// The number of unconfirmed stanzas of ours at which the server is asked for its count.
    static let askAfter: UInt32 = 100

    /// The request for stream management; a time is how long to hold the session of a lost connection.
    static func request(resume: Duration) -> [UInt8] {
        guard resume > .zero else { return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>".utf8) }
        let seconds = max(resume.components.seconds, 1)
        return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"true\" max=\"\(seconds)\"/>".utf8)
    }

    private var state: State
    /// The number of the last received stanza, modulo 2^32 like all counts here.
    private(set) var received: UInt32
    /// The numbers of unsettled messages' stanzas, in order of arrival.
    private var unsettled: [UInt32] = []
    /// The `h` that was sent last.
    private(set) var told: UInt32
    /// How many stanzas we have sent since the request.
    package private(set) var sent: UInt32
    /// How many of them the server last said it has.
    package private(set) var confirmed: UInt32
    /// How many we had sent when the server was asked last.
    private var asked: UInt32
    /// The server's grant of resumption; nil without one.
    private(set) var grant: ResumptionGrant?

    /// Stream management as the negotiation leaves it; the count starts elsewhere only in tests.
    init(_ offer: Offer, after start: UInt32 = 0) {
        state = offer == .offered ? .requested : .off
        received = start
        told = start
        sent = start
        confirmed = start
        asked = start
    }

    var isActive: Bool { if case .active = state { true } else { false } }

    var isRequested: Bool { if case .requested = state { true } else { false } }

    /// The number of the last stanza before the first unsettled one: `h`.
    var handled: UInt32 { unsettled.first.map { $0 &- 1 } ?? received }

    // MARK: Received

    /// Counts a stanza that needs no commit.
    mutating func noted() {
        guard isActive else { return }
        received &+= 1
    }

    /// Counts a message that `h` waits for, and assigns its number.
    mutating func number(_ message: inout IncomingMessage) {
        received &+= 1
        unsettled.append(received)
        message.stanzaNumber = received
    }

    /// Counts a stanza of several messages; `h` waits for all of them.
    mutating func number(_ messages: inout [IncomingMessage]) {
        received &+= 1
        for index in messages.indices {
            unsettled.append(received)
            messages[index].stanzaNumber = received
        }
    }

    /// Notes settled messages, each once, in any order; unknown ones, and those from before ``Outcome/enabled``, are skipped.
    mutating func settled(_ messages: [IncomingMessage]) {
        guard isActive, let first = unsettled.first else { return }
        // By distance from the oldest, so that the order holds across the wrap.
        let distances = messages.map { $0.stanzaNumber &- first }.sorted()
        var next = 0
        unsettled.removeAll { number in
            let distance = number &- first
            while next < distances.count, distances[next] < distance { next += 1 }
            guard next < distances.count, distances[next] == distance else { return false }
            // One for one: a stanza's other messages may still be unsettled.
            next += 1
            return true
        }
    }

    /// Whether all messages in flight, so many, came after the stanza of this number.
    func areLater(than number: UInt32, _ count: Int) -> Bool {
        // Others are not numbered: those that stay stored, and what came before ``Outcome/enabled``.
        isActive && unsettled.count == count && Int32(bitPattern: handled &- number) >= 0
    }

    /// `<a/>` if `h` has advanced since it was last sent, and `<r/>` if much of what we sent is unconfirmed.
    mutating func progress() -> [UInt8]? {
        guard isActive else { return nil }
        var bytes = handled == told ? [] : answer()
        if min(sent &- asked, sent &- confirmed) >= StreamManagement.askAfter {
            asked = sent
            bytes.append(xml: "<r xmlns=\"urn:xmpp:sm:3\"/>")
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// The final `<a/>`; empty if nothing is counted.
    mutating func last() -> [UInt8] { isActive ? answer() : [] }

    private mutating func answer() -> [UInt8] {
        told = handled
        return Array("<a xmlns=\"urn:xmpp:sm:3\" h=\"\(told)\"/>".utf8)
    }

    // MARK: Sent

    /// Counts stanzas of ours, in the order they are written.
    mutating func wrote(_ count: Int = 1) {
        guard state != .off else { return }
        sent &+= UInt32(truncatingIfNeeded: count)
    }

    /// Whether an element is a server's count of our stanzas.
    static func isAnswer(_ element: Stanza) -> Bool {
        element.equals(element.elements[0].namespace, XMLNamespace.streamManagement)
            && element.equals(element.elements[0].name, "a")
    }

    /// Handles the server's count of our stanzas.
    private mutating func confirm(_ element: Stanza) -> ElementAction {
        guard let count = element.attribute("h", of: 0).flatMap({ StreamManagement.counter(element.bytes[$0]) }) else {
            return .refuse(StreamError.farewell(.invalidXML))
        }
        guard count &- confirmed <= sent &- confirmed else {
            return .refuse(StreamManagement.tooHigh(count, sent: sent))
        }
        confirmed = count
        return .ignore
    }

    /// The stream error about an impossible `h` (XEP-0198 section 4).
    private static func tooHigh(_ count: UInt32, sent: UInt32) -> [UInt8] {
        let detail = "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='\(count)' send-count='\(sent)'/>"
        let condition = "<undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
        return Array("<stream:error>\(condition)\(detail)</stream:error></stream:stream>".utf8)
    }

    mutating func forgoResumption() { grant = nil }

    /// Parses a count in `h` (XEP-0198 section 4).
    fileprivate static func counter(_ text: some Collection<UInt8>) -> UInt32? {
        text.decimal(most: 10).flatMap { UInt32(exactly: $0) }
    }

    // MARK: The server's elements

    /// Handles a top-level element.
    mutating func receive(_ element: Stanza) -> ElementAction {
        guard element.equals(element.elements[0].namespace, XMLNamespace.streamManagement) else { return .none }
        let name = element.elements[0].name
        switch state {
        case .active where element.equals(name, "r"):
            // At once, and with the current count: waiting for a commit would look like a dead connection.
            return .send(answer())
        case .active where element.equals(name, "a"):
            return confirm(element)
        case .requested where element.equals(name, "enabled"):
            state = .active
            grant = ResumptionGrant(element)
            return .decided(.enabled)
        case .requested where element.equals(name, "failed"):
            state = .off
            return .decided(.refused(StreamManagement.condition(of: element)))
        case .off, .requested, .active:
            return .ignore
        }
    }

    private static func condition(of element: Stanza) -> StanzaErrorCondition {
        element.condition(in: XMLNamespace.stanzaErrors) ?? .undefinedCondition
    }

    // MARK: Resumption of a stream whose connection was lost (XEP-0198 section 5)

    /// Whether the stream can be resumed: it is counted, the server holds it, and everything received has settled, so
    /// that `h` covers it and nothing of it comes again.
    package var canResume: Bool { isActive && grant != nil && handled == received }

    /// The server's preferred host for resuming, made safe for a log; nil if it does not say.
    package var location: String? { grant?.location }

    /// Until when the server holds the session of a connection lost at this time: as it says, or else as it was asked.
    package func resumable(until now: UInt64, asked: Duration) -> UInt64 {
        let (due, overflow) = now.addingReportingOverflow((grant?.longest ?? asked).nanoseconds)
        return overflow ? .max : due
    }

    /// The request to resume; its `h` covers what has committed.
    package mutating func resumption() -> [UInt8] {
        guard let grant else { return [] }
        told = handled
        let id = String(decoding: grant.id, as: UTF8.self).xmlEscaped
        return Array("<resume xmlns=\"urn:xmpp:sm:3\" previd=\"\(id)\" h=\"\(told)\"/>".utf8)
    }

    /// Handles the server's answer, with the number of our stanzas that it has: what it does not have must be sent
    /// again, or given up, and the count continues from there.
    package mutating func answered(_ element: Stanza) -> ResumptionAnswer {
        guard element.equals(element.elements[0].namespace, XMLNamespace.streamManagement) else { return .none }
        let name = element.elements[0].name
        if element.equals(name, "failed") { return .refused(StreamManagement.condition(of: element)) }
        guard element.equals(name, "resumed") else { return .none }
        guard let id = element.attribute("previd", of: 0), element.bytes[id].elementsEqual(grant?.id ?? []),
            let count = element.attribute("h", of: 0).flatMap({ StreamManagement.counter(element.bytes[$0]) }),
            count &- confirmed <= sent &- confirmed
        else { return .invalid }
        confirmed = count
        sent = count
        asked = count
        return .resumed(confirmed: count)
    }
}

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
