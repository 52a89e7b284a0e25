import Vocabulary
import XMLWire

/// Stream management (XEP-0198) on one stream, as a pure value: how far we answer for received stanzas, and how many of
/// ours the server has.
///
/// ```
/// off
/// requested ──enabled──▶ active ──lost, and resumed──▶ active
///     └──────failed────▶ off
/// ```
/// The server keeps every stanza until `h` covers it, and puts the rest into its offline store when the session ends.
/// So `h` counts only the stanzas before the first uncommitted message: whatever kills this process, the server still
/// has what the database has not.
///
/// In the other direction, our own stanzas are counted from the request on, and the server is asked how many it has
/// (`<r/>`) as soon as ``askAfter`` are unknown. Its `h` is checked: one that goes back, or beyond what was sent, ends
/// the stream, since the two sides then disagree about what was said.
///
/// Memory: a number for each unsettled message, which the in-flight window bounds.
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
        /// The server does not offer it.
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
        /// The server has answered our request.
        case decided(Outcome)
        /// The server's `h` is impossible: end the stream with this error, whose bytes end with our closing tag.
        case refuse([UInt8])
    }

    private enum State: Equatable {
        /// Nothing is counted. The last state.
        case off
        /// `<enable/>` is among the first things we send; what comes before the answer is not counted. To `active`,
        /// `off`.
        case requested
        /// Stanzas are counted, until the stream's end and, if it is resumed, beyond.
        case active
    }

    /// The number of unconfirmed stanzas of ours at which the server is asked for its count.
    static let askAfter: UInt32 = 100

    /// The request for stream management.
    ///
    /// - Parameter resume: How long the server is asked to hold the session of a lost connection; zero for not at all.
    /// - Returns: The element.
    static func request(resume: Duration) -> [UInt8] {
        guard resume > .zero else { return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>".utf8) }
        let seconds = max(resume.components.seconds, 1)
        return Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"true\" max=\"\(seconds)\"/>".utf8)
    }

    private var state: State
    /// The number of the last received stanza, modulo 2^32 like all counts here.
    private var received: UInt32
    /// The numbers of unsettled messages, in order of arrival.
    private var unsettled: [UInt32] = []
    /// The `h` that was sent last.
    private(set) var told: UInt32
    /// How many stanzas we have sent since the request.
    package private(set) var sent: UInt32
    /// How many of them the server last said it has.
    package private(set) var confirmed: UInt32
    /// Whether `<r/>` waits for its answer.
    private var isAsked = false
    /// The server's grant of resumption; nil without one.
    private(set) var grant: ResumptionGrant?

    /// Stream management as the negotiation leaves it.
    ///
    /// - Parameters:
    ///   - offer: The server's offer.
    ///   - start: The number before the first; other than 0 only in tests.
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

    /// The number of the last stanza before the first unsettled one: `h`.
    var handled: UInt32 { unsettled.first.map { $0 &- 1 } ?? received }

    /// The number of the last received stanza.
    var lastReceived: UInt32 { received }

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

    /// Notes settled messages, in any order.
    ///
    /// One from before ``Outcome/enabled`` has the number 0 and is skipped, as is an unknown one. A counted message has
    /// the number 0 only after 2^32 others.
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

    /// `<a/>` if `h` has advanced since it was last sent, and `<r/>` if much of what we sent is unconfirmed.
    mutating func progress() -> [UInt8]? {
        guard isActive else { return nil }
        var bytes = handled == told ? [] : answer()
        if !isAsked, sent &- confirmed >= StreamManagement.askAfter {
            isAsked = true
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
        guard !isOff else { return }
        sent &+= UInt32(truncatingIfNeeded: count)
    }

    private var isOff: Bool { if case .off = state { true } else { false } }

    /// Handles the server's count of our stanzas.
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

    /// The stream error about an impossible `h` (XEP-0198 section 4).
    private static func tooHigh(_ count: UInt32, sent: UInt32) -> [UInt8] {
        let detail = "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='\(count)' send-count='\(sent)'/>"
        let condition = "<undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
        return Array("<stream:error>\(condition)\(detail)</stream:error></stream:stream>".utf8)
    }

    /// Gives up resumption.
    mutating func forgoResumption() { grant = nil }

    /// Notes that `h` is sent outside of an `<a/>`.
    mutating func markTold() { told = handled }

    /// Continues the count after a resumption, from the number of our stanzas that the server has.
    ///
    /// - Returns: False if that number is impossible.
    mutating func goOn(from count: UInt32) -> Bool {
        guard count &- confirmed <= sent &- confirmed else { return false }
        confirmed = count
        sent = count
        isAsked = false
        return true
    }

    /// Parses a count in `h`: only digits, below 2^32 (XEP-0198 section 4).
    static func counter(_ text: some Collection<UInt8>) -> UInt32? {
        guard (1...10).contains(text.count) else { return nil }
        var number: UInt64 = 0
        for byte in text {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            number = number * 10 + UInt64(byte - 0x30)
        }
        return UInt32(exactly: number)
    }

    // MARK: The server's elements

    /// Handles a top-level element.
    ///
    /// - Parameter element: Lent for the call.
    /// - Returns: The next step.
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

    static func condition(of element: Stanza) -> StanzaErrorCondition {
        for child in element.children()
        where element.equals(element.elements[child].namespace, XMLNamespace.stanzaErrors) {
            if let known = StanzaErrorCondition(rawValue: element.string(element.elements[child].name)) { return known }
        }
        return .undefinedCondition
    }
}
