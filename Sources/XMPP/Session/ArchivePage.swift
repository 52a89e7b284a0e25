package import Vocabulary
import XMLWire

/// A page that is asked for in an archive.
package enum ArchiveRequest: Sendable, Equatable {
    /// The last message: only its place is wanted, as that of the archive's end.
    case end
    /// So many messages after a place, and before a time.
    case after(ArchivePoint, until: Timestamp? = nil, most: Int = size)

    /// The most messages of a page.
    package static let size = 100
    /// The messages of a page that keeps live ones waiting for as short as can be, at a server with one thread: Prosody
    /// takes 0.5 ms for each page and 0.2 ms for each message, and as long again for its ack.
    package static let shortSize = 5
    /// How much longer a result is than its message, in bytes, and how many elements more, some inside each other.
    package static let wrapping = (bytes: 4_096, elements: 4, depth: 3)
}

/// An archive's answer to the request for a page.
package enum ArchiveAnswer: Sendable, Equatable {
    /// So many results, the last one's id and time, and whether no more follow.
    case page(count: Int, last: ArchivePoint, isComplete: Bool)
    case refused(StanzaErrorCondition)
}

/// A page of our account's archive (XEP-0313) from its request until all of it is committed, as a pure value.
///
/// Taken are results to this query from our own archive alone: a forwarded message is otherwise anybody's claim.
struct ArchivePage: Sendable {
    /// What a stanza is to the page.
    enum Part: Equatable {
        /// Not part of it.
        case none
        /// A result: the element of its message, unless only its place is wanted, and the time at which it was stored.
        case result(message: Int?, storedAt: Timestamp?)
        case end
    }

    /// The longest archive id that is kept, in bytes.
    static let idLimit = 1_024

    private let request: ArchiveRequest
    /// The id of our query, which nobody else can guess.
    private let id: String
    private var count = 0
    private var last = ArchivePoint()
    private(set) var answer: ArchiveAnswer?
    /// The answer's number among the server's stanzas, where those are counted.
    var number: UInt32?

    init(_ request: ArchiveRequest, id: String) {
        (self.request, self.id) = (request, id)
    }

    /// The query, to our own account.
    var query: [UInt8] {
        var (form, place, most) = ("", "<before/>", 1)
        if case .after(let point, let until, let size) = request {
            most = size
            place = point.id.map { "<after>\($0.xmlEscaped)</after>" } ?? ""
            form = ArchivePage.form(start: point.id == nil ? point.time : nil, end: until)
        }
        let set = "<set xmlns=\"\(XMLNamespace.resultSet)\"><max>\(most)</max>\(place)</set>"
        let query = "<query xmlns=\"\(XMLNamespace.archive)\" queryid=\"\(id.xmlEscaped)\">\(form)\(set)</query>"
        return Array("<iq type=\"set\" id=\"\(id.xmlEscaped)\">\(query)</iq>".utf8)
    }

    private static func form(start: Timestamp?, end: Timestamp?) -> String {
        let fields = [("start", start), ("end", end)].compactMap { name, time in
            // Whole seconds, which every server reads.
            time.map { Timestamp(microseconds: $0.microseconds - $0.microseconds % 1_000_000).rfc3339 }
                .map { "<field var=\"\(name)\"><value>\($0)</value></field>" }
        }
        guard !fields.isEmpty else { return "" }
        return "<x xmlns=\"\(XMLNamespace.dataForm)\" type=\"submit\">"
            + "<field var=\"FORM_TYPE\" type=\"hidden\"><value>\(XMLNamespace.archive)</value></field>"
            + fields.joined() + "</x>"
    }

    /// Takes a stanza of our account's archive; the caller has judged its sender.
    mutating func take(_ stanza: Stanza) -> Part {
        guard answer == nil else { return .none }
        if stanza.element(0, is: "iq", in: XMLNamespace.client) { return takeAnswer(stanza) }
        guard stanza.element(0, is: "message", in: XMLNamespace.client),
            let result = stanza.child("result", in: XMLNamespace.archive),
            let query = stanza.attribute("queryid", of: result), stanza.bytes[query].elementsEqual(id.utf8)
        else { return .none }
        count += 1
        let forwarded = stanza.child("forwarded", in: XMLNamespace.forward, of: result)
        let delay = forwarded.flatMap { stanza.child("delay", in: XMLNamespace.delay, of: $0) }
        let time = delay.flatMap { stanza.attribute("stamp", of: $0) }
            .flatMap { $0.count <= 40 ? try? Timestamp(parsing: stanza.string($0)) : nil }
        last.time = time ?? last.time
        // One that sends more than it was asked for is not believed; nor read on.
        guard case .after(_, _, let most) = request, count <= most else { return .result(message: nil, storedAt: nil) }
        let message = forwarded.flatMap { stanza.child("message", in: XMLNamespace.client, of: $0) }
        return .result(message: message, storedAt: time)
    }

    /// Takes the answer to the query, after its results.
    private mutating func takeAnswer(_ stanza: Stanza) -> Part {
        guard let isResult = stanza.isResult(of: id) else { return .none }
        guard isResult, let end = stanza.child("fin", in: XMLNamespace.archive) else {
            answer = .refused(isResult ? .undefinedCondition : StanzaError(stanza).condition)
            return .end
        }
        let set = stanza.child("set", in: XMLNamespace.resultSet, of: end)
        let element = set.flatMap { stanza.child("last", in: XMLNamespace.resultSet, of: $0) }
        let id = element.map { stanza.elements[$0].text } ?? 0..<0
        if (1...ArchivePage.idLimit).contains(id.count) { last.id = stanza.string(id) }
        let complete = stanza.attribute("complete", of: end)
        let isComplete = complete.map { stanza.equals($0, "true") || stanza.equals($0, "1") } ?? false
        answer = .page(count: count, last: last, isComplete: isComplete)
        return .end
    }
}

// A stream without presence, over which our account's archive is read.
extension Session {
    /// Begins to ask for a page and returns the query; nil if nothing may be sent any more.
    mutating func ask(_ request: ArchiveRequest) -> [UInt8]? {
        guard case .open = state else { return nil }
        pages += 1
        let page = ArchivePage(request, id: "\(idPrefix)-archive-\(pages)")
        self.page = page
        management.wrote()
        return page.query
    }

    /// The answer to the query once all that came before it is committed, and only once; nil until then.
    mutating func takeAnswer() -> ArchiveAnswer? {
        guard let page, let answer = page.answer, isSettled(before: page.number) else { return nil }
        self.page = nil
        return answer
    }

    /// Handles a stanza of the archive's page; nil if it is none.
    mutating func paged(_ stanza: Stanza, receivedAt: Int64, parsedAt: UInt64, following: Int) -> StanzaAction? {
        guard isFromOwnAccount(stanza) else { return nil }
        switch page?.take(stanza) {
        case nil, .some(.none): return nil
        case .end:
            defer { if management.isActive { page?.number = management.received } }
            return note(.other)
        case .result(let element?, let time):
            // Judged like any other from here on, by its own sender.
            let part = stanza.part(element)
            // As a live one it would have ended the stream, and not come again; here it would come again for ever.
            if let messageLimit, !part.fits(in: messageLimit) { return note(.archived) }
            let kind = codec.decode(
                part,
                receivedAt: receivedAt,
                parsedAt: parsedAt,
                following: following,
                storedAt: time
            )
            switch kind {
            case .message(var message):
                message.isArchived = true
                return deliver(message, now: parsedAt)
            case .messages(var messages):
                for index in messages.indices { messages[index].isArchived = true }
                return deliver(messages, now: parsedAt)
            default: return note(.archived)
            }
        case .result: return note(.archived)
        }
    }

    /// Whether the server speaks for our account (RFC 6120 section 8.1.2.1): its archive has our bare address.
    func isFromOwnAccount(_ stanza: Stanza) -> Bool { stanza.isFrom(nobodyOr: { $0 == address.bare }) }
}
