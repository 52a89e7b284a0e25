import Vocabulary
package import XMLWire

// Going on with a stream whose connection was lost (XEP-0198 section 5).
extension StreamManagement {
    /// What to make of the server's answer to `<resume/>`.
    package enum ResumptionAnswer: Sendable, Equatable {
        /// It is none.
        case none
        /// The stream goes on: the server has this many of our stanzas, modulo 2^32.
        case resumed(confirmed: UInt32)
        /// The session is gone: bind a new one on this stream.
        case refused(StanzaErrorCondition)
        /// It is an answer about another session, or its count can't be: nothing on this stream can be relied on.
        case invalid
    }

    /// Whether the stream can go on over another connection: it is counted, the server holds it, and everything that came
    /// has settled, so that `h` covers it and nothing of it comes again.
    package var canResume: Bool { isActive && grant != nil && handled == lastReceived }

    /// Where the server wants to be asked to go on, made fit for a log; nil where it does not say.
    package var location: String? { grant?.location }

    /// Until when the server holds the session at least, as far as it said; nanoseconds of a monotonic clock.
    ///
    /// - Parameters:
    ///   - now: When the connection was lost, on the same clock.
    ///   - asked: How long it was asked to; counts where it does not say.
    /// - Returns: The end of that time.
    package func resumable(until now: UInt64, asked: Duration) -> UInt64 {
        let (due, overflow) = now.addingReportingOverflow((grant?.longest ?? asked).nanoseconds)
        return overflow ? .max : due
    }

    /// What asks the server to go on: `h` covers what has committed.
    package mutating func resumption() -> [UInt8] {
        guard let grant else { return [] }
        markTold()
        var bytes: [UInt8] = []
        bytes.append(xml: "<resume xmlns=\"urn:xmpp:sm:3\" previd=\"")
        bytes.append(escaping: grant.id)
        bytes += Array("\" h=\"\(told)\"/>".utf8)
        return bytes
    }

    /// The server has answered, and says how many of our stanzas it has.
    ///
    /// What it has not must be sent again, or be given up: the count goes on from there.
    ///
    /// - Parameter element: Lent for the call.
    /// - Returns: What to make of it.
    package mutating func answered(_ element: Stanza) -> ResumptionAnswer {
        guard element.equals(element.elements[0].namespace, XMLNamespace.streamManagement) else { return .none }
        let name = element.elements[0].name
        if element.equals(name, "failed") { return .refused(StreamManagement.condition(of: element)) }
        guard element.equals(name, "resumed") else { return .none }
        guard let id = element.attribute("previd", of: 0), element.bytes[id].elementsEqual(grant?.id ?? []),
            let count = element.attribute("h", of: 0).flatMap({ StreamManagement.counter(element.bytes[$0]) }),
            goOn(from: count)
        else { return .invalid }
        return .resumed(confirmed: count)
    }
}
