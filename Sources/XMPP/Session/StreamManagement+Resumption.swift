import Vocabulary
package import XMLWire

// Resuming a stream whose connection was lost (XEP-0198 section 5).
extension StreamManagement {
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

    /// Whether the stream can be resumed: it is counted, the server holds it, and everything received has settled, so
    /// that `h` covers it and nothing of it comes again.
    package var canResume: Bool { isActive && grant != nil && handled == lastReceived }

    /// The server's preferred host for resuming, made safe for a log; nil if it does not say.
    package var location: String? { grant?.location }

    /// Until when the server holds the session at least; nanoseconds of a monotonic clock.
    ///
    /// - Parameters:
    ///   - now: When the connection was lost, on the same clock.
    ///   - asked: How long the server was asked to hold it; counts if it did not say.
    /// - Returns: The end of that time.
    package func resumable(until now: UInt64, asked: Duration) -> UInt64 {
        let (due, overflow) = now.addingReportingOverflow((grant?.longest ?? asked).nanoseconds)
        return overflow ? .max : due
    }

    /// The request to resume; its `h` covers what has committed.
    package mutating func resumption() -> [UInt8] {
        guard let grant else { return [] }
        markTold()
        var bytes: [UInt8] = []
        bytes.append(xml: "<resume xmlns=\"urn:xmpp:sm:3\" previd=\"")
        bytes.append(escaping: grant.id)
        bytes += Array("\" h=\"\(told)\"/>".utf8)
        return bytes
    }

    /// Handles the server's answer, with the number of our stanzas that it has.
    ///
    /// What it does not have must be sent again, or given up: the count continues from there.
    ///
    /// - Parameter element: Lent for the call.
    /// - Returns: The answer.
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
