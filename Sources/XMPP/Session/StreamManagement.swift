import Vocabulary
import XMLWire

/// Our half of stream management (XEP-0198) on one stream, as a pure value: how far we answer for what came.
///
/// ```
/// off
/// requested ──enabled──▶ active
///     └──────failed────▶ off
/// ```
/// The server keeps every stanza until `h` says that it is handled, and puts what is left into its offline store when the
/// connection ends. So `h` counts no further than the stanzas before the first message that has not committed: whatever
/// kills this process, the server still has what the database has not. Resumption is never asked for (docs/adr/0005).
///
/// Memory: a number for each message that is delivered and not settled, which the in-flight window bounds. Whatever the
/// peer says, nothing here can fail; the peer's own `h` is not used, since we keep nothing to send again.
package struct StreamManagement: Sendable {
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
    }

    private enum State {
        /// Nothing is counted. The last state.
        case off
        /// `<enable/>` is among the first things we send; what comes before the answer is not counted. To `active`, `off`.
        case requested
        /// Stanzas are counted, to the stream's end.
        case active
    }

    /// What asks for it: without resumption.
    static var request: [UInt8] { Array("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>".utf8) }

    private var state: State
    /// The number of the last stanza, modulo 2^32 as everything here.
    private var received: UInt32
    /// The numbers of the messages that are not settled, in the order they came.
    private var unsettled: [UInt32] = []
    /// The `h` that was sent last.
    private var told: UInt32

    /// Stream management as the negotiation leaves it.
    ///
    /// - Parameters:
    ///   - offer: What is known of the server.
    ///   - start: What the count begins after; other than 0 for tests alone.
    init(_ offer: Offer, after start: UInt32 = 0) {
        state = offer == .offered ? .requested : .off
        received = start
        told = start
    }

    /// Whether stanzas are counted.
    var isActive: Bool { if case .active = state { true } else { false } }

    /// Whether our request waits for its answer.
    var isRequested: Bool { if case .requested = state { true } else { false } }

    /// The number of the last stanza before the first that is not settled: `h`.
    var handled: UInt32 { unsettled.first.map { $0 &- 1 } ?? received }

    /// Counts a stanza that needs no commit.
    mutating func noted() {
        guard isActive else { return }
        received &+= 1
    }

    /// Counts a message that `h` waits for, and gives it its number.
    mutating func numbered(_ message: consuming IncomingMessage) -> IncomingMessage {
        received &+= 1
        unsettled.append(received)
        message.stanzaNumber = received
        return message
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

    /// `<a/>` where `h` has come further since it was sent last.
    mutating func progress() -> [UInt8]? { isActive && handled != told ? answer() : nil }

    /// `<a/>` for the end of the stream; empty where nothing is counted.
    mutating func last() -> [UInt8] { isActive ? answer() : [] }

    private mutating func answer() -> [UInt8] {
        told = handled
        return Array("<a xmlns=\"urn:xmpp:sm:3\" h=\"\(told)\"/>".utf8)
    }

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
        case .requested where element.equals(name, "enabled"):
            state = .active
            return .decided(.enabled)
        case .requested where element.equals(name, "failed"):
            state = .off
            return .decided(.refused(StreamManagement.condition(of: element)))
        case .off, .requested, .active:
            return .ignore
        }
    }

    private static func condition(of element: Stanza) -> StanzaErrorCondition {
        for child in element.children()
        where element.equals(element.elements[child].namespace, XMLNamespace.stanzaErrors) {
            if let known = StanzaErrorCondition(rawValue: element.string(element.elements[child].name)) { return known }
        }
        return .undefinedCondition
    }
}
