import Vocabulary
import XMLWire

/// Stream management (XEP-0198) on one stream, as a pure value: how far we answer for what came, and what the server has of
/// what we sent.
///
/// ```
/// off
/// requested ──enabled──▶ active ──lost, and resumed──▶ active
///     └──────failed────▶ off
/// ```
/// The server keeps every stanza until `h` says that it is handled, and puts what is left into its offline store when the
/// session ends. So `h` counts no further than the stanzas before the first message that has not committed: whatever
/// kills this process, the server still has what the database has not.
///
/// The other way, our own stanzas are counted from the request on, and the server is asked how many it has (`<r/>`) as soon as
/// ``askAfter`` are unknown. Its `h` is checked: one that goes back, or beyond what was sent, ends the stream, for then the
/// two sides don't agree on what has been said.
///
/// Memory: a number for each message that is delivered and not settled, which the in-flight window bounds.
package struct StreamManagement: Sendable, Equatable {
    /// What is known of the server before the request.
    package enum Offer: Sendable, Equatable {
        /// It is a CCS, or the connection is a component's: neither has stream management.
        case unused
        /// It is a standard server that offers none.
        case missing
        /// It offers it.
        case offered
    }

    /// How it stands with stream management, once that is decided.
    package enum Outcome: Sendable, Equatable {
        /// The server keeps what `h` does not cover.
        case enabled
        /// The server does not offer it.
        case missing
        /// The server refused the request after offering it, with this condition.
        case refused(StanzaErrorCondition)
    }

    /// What to do about a top-level element that is no message for the pipeline.
    enum ElementAction: Equatable {
        /// It is not one of stream management.
        case none
        /// It is, and asks for nothing.
        case ignore
        /// Send these bytes.
        case send([UInt8])
        /// The server has answered our request.
        case decided(Outcome)
        /// The server's `h` can't be: end the stream with this error, whose bytes end with our closing tag.
        case refuse([UInt8])
    }

    private enum State: Equatable {
        /// Nothing is counted. The last state.
        case off
        /// `<enable/>` is among the first things we send; what comes before the answer is not counted. To `active`, `off`.
        case requested
        /// Stanzas are counted, to the stream's end, and beyond where it is resumed.
        case active
    }

    /// The server is asked what it has once this many stanzas of ours are unknown.
    static let askAfter: UInt32 = 100

    /// What asks for it.
    ///
    /// - Parameter resume: How long the server is asked to hold the session of a lost connection; zero for not at all.
    /// - Returns: The element.
    static func request(resume: Duration) -> [UInt8] {
        guard resume > .zero else { return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>".utf8) }
        let seconds = max(resume.components.seconds, 1)
        return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"true\" max=\"\(seconds)\"/>".utf8)
    }

    private var state: State
    /// The number of the last stanza, modulo 2^32 as everything here.
    private var received: UInt32
    /// The numbers of the messages that are not settled, in the order they came.
    private var unsettled: [UInt32] = []
    /// The `h` that was sent last.
    private(set) var told: UInt32
    /// How many stanzas we have sent since the request.
    package private(set) var sent: UInt32
    /// How many of them the server has, as it said last.
    package private(set) var confirmed: UInt32
    /// Whether `<r/>` waits for its answer.
    private var isAsked = false
    /// What the server said about resumption; nil where it won't.
    private(set) var grant: ResumptionGrant?

    /// Stream management as the negotiation leaves it.
    ///
    /// - Parameters:
    ///   - offer: What is known of the server.
    ///   - start: What the counts begin after; other than 0 for tests alone.
    init(_ offer: Offer, after start: UInt32 = 0) {
        state = offer == .offered ? .requested : .off
        received = start
        told = start
        sent = start
        confirmed = start
    }

    /// Whether stanzas are counted.
    var isActive: Bool { if case .active = state { true } else { false } }

    /// Whether our request waits for its answer.
    var isRequested: Bool { if case .requested = state { true } else { false } }

    /// The number of the last stanza before the first that is not settled: `h`.
    var handled: UInt32 { unsettled.first.map { $0 &- 1 } ?? received }

    /// The number of the last stanza that came.
    var lastReceived: UInt32 { received }

    // MARK: What came

    /// Counts a stanza that needs no commit.
    mutating func noted() {
        guard isActive else { return }
        received &+= 1
    }

    /// Counts a message that `h` waits for, and gives it its number.
    mutating func number(_ message: inout IncomingMessage) {
        received &+= 1
        unsettled.append(received)
        message.stanzaNumber = received
    }

    /// Messages have been settled, in whatever order.
    ///
    /// One from before ``Outcome/enabled`` has the number 0 and is skipped, as is an unknown one. A counted message has the
    /// number 0 only after 2^32 others.
    mutating func settled(_ messages: [IncomingMessage]) {
        guard isActive, let first = unsettled.first else { return }
        // By distance from the oldest, so that the order holds across the wrap.
        let distances = messages.map { $0.stanzaNumber &- first }.sorted()
        var next = 0
        unsettled.removeAll { number in
            let distance = number &- first
            while next < distances.count, distances[next] < distance { next += 1 }
            return next < distances.count && distances[next] == distance
        }
    }

    /// `<a/>` where `h` has come further since it was sent last, and `<r/>` where much of what we sent is unknown.
    mutating func progress() -> [UInt8]? {
        guard isActive else { return nil }
        var bytes = handled == told ? [] : answer()
        if !isAsked, sent &- confirmed >= StreamManagement.askAfter {
            isAsked = true
            bytes.append(xml: "<r xmlns=\"urn:xmpp:sm:3\"/>")
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// `<a/>` for the end of the stream; empty where nothing is counted.
    mutating func last() -> [UInt8] { isActive ? answer() : [] }

    private mutating func answer() -> [UInt8] {
        told = handled
        return Array("<a xmlns=\"urn:xmpp:sm:3\" h=\"\(told)\"/>".utf8)
    }

    // MARK: What we send

    /// Counts stanzas of ours, in the order they are written.
    mutating func wrote(_ count: Int = 1) {
        guard !isOff else { return }
        sent &+= UInt32(truncatingIfNeeded: count)
    }

    private var isOff: Bool { if case .off = state { true } else { false } }

    /// The server says how many of our stanzas it has.
    private mutating func confirm(_ element: Stanza) -> ElementAction {
        guard let count = element.attribute("h", of: 0).flatMap({ StreamManagement.counter(element.bytes[$0]) }) else {
            return .refuse(StreamError.farewell(.invalidXML))
        }
        guard count &- confirmed <= sent &- confirmed else {
            return .refuse(StreamManagement.tooHigh(count, sent: sent))
        }
        confirmed = count
        isAsked = false
        return .ignore
    }

    /// The stream error about an `h` that can't be (XEP-0198 section 4).
    private static func tooHigh(_ count: UInt32, sent: UInt32) -> [UInt8] {
        let detail = "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='\(count)' send-count='\(sent)'/>"
        let condition = "<undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
        return Array("<stream:error>\(condition)\(detail)</stream:error></stream:stream>".utf8)
    }

    /// The session is not to be resumed.
    mutating func forgoResumption() { grant = nil }

    /// `h` is about to be told outside of an `<a/>`.
    mutating func markTold() { told = handled }

    /// The stream goes on over another connection, and the server has this many of our stanzas: counting goes on from there.
    ///
    /// - Returns: False where it can't have so many, or has had more.
    mutating func goOn(from count: UInt32) -> Bool {
        guard count &- confirmed <= sent &- confirmed else { return false }
        confirmed = count
        sent = count
        isAsked = false
        return true
    }

    /// A count as it stands in `h`: digits alone, below 2^32 (XEP-0198 section 4).
    static func counter(_ text: some Collection<UInt8>) -> UInt32? {
        guard (1...10).contains(text.count) else { return nil }
        var number: UInt64 = 0
        for byte in text {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            number = number * 10 + UInt64(byte - 0x30)
        }
        return UInt32(exactly: number)
    }

    // MARK: The server's words

    /// A top-level element came.
    ///
    /// - Parameter element: Lent for the call.
    /// - Returns: What to do.
    mutating func receive(_ element: Stanza) -> ElementAction {
        guard element.equals(element.elements[0].namespace, XMLNamespace.streamManagement) else { return .none }
        let name = element.elements[0].name
        switch state {
        case .active where element.equals(name, "r"):
            // At once, and with what is true now: waiting for a commit would look like a dead connection.
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

    /// The condition that a `<failed/>` names.
    static func condition(of element: Stanza) -> StanzaErrorCondition {
        for child in element.children()
        where element.equals(element.elements[child].namespace, XMLNamespace.stanzaErrors) {
            if let known = StanzaErrorCondition(rawValue: element.string(element.elements[child].name)) { return known }
        }
        return .undefinedCondition
    }
}
