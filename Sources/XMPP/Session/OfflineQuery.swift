import XMLWire

/// A request about the messages that our account's server has stored offline (XEP-0013), each by its node.
package enum OfflineRequest: Sendable, Equatable {
    /// How many there are.
    case count
    /// Their nodes.
    case list
    /// The messages of these nodes, which stay stored.
    case view([String])
    /// Their removal.
    case remove([String])

    /// How many messages to view of a store of so many: the longer it is, the longer ejabberd takes to find each, and it
    /// answers no ping meanwhile.
    static func size(of count: Int) -> Int { min(max(100_000 / max(count, 1), 10), 100) }

    /// The most messages that are listed, and the longest stanza that the list may be.
    package static let listLimit = 15_000
    package static let stanzaLimit = 2 << 20
    /// How much longer a message may be with the server's note of its node, in bytes.
    package static let wrapping = 256
}

/// A server's answer to such a request.
package enum OfflineAnswer: Sendable, Equatable {
    case count(Int)
    case list([String])
    /// The nodes whose messages have come.
    case viewed([String])
    case removed
    case refused(StanzaErrorCondition)
}

/// A request about the offline store until its answer and all that came with it is committed, as a pure value.
///
/// A message that comes with the node that was asked for is judged and acked like any other.
struct OfflineQuery: Sendable {
    /// The longest node that is kept, in bytes: those of a request must fit in a stanza.
    static let nodeLimit = 100

    private let request: OfflineRequest
    /// The id of our query, which nobody else can guess.
    private let id: String
    /// The nodes that have come.
    private var viewed: [String] = []
    private(set) var answer: OfflineAnswer?
    /// The answer's number among the server's stanzas, where those are counted.
    var number: UInt32?

    init(_ request: OfflineRequest, id: String) {
        (self.request, self.id) = (request, id)
    }

    /// Whether messages may come still.
    var isViewing: Bool { if answer == nil, case .view = request { true } else { false } }

    /// The query, to our own account.
    var query: [UInt8] {
        let (type, content) =
            switch request {
            case .count: ("get", OfflineQuery.discovery(XMLNamespace.discoveryInfo))
            case .list: ("get", OfflineQuery.discovery(XMLNamespace.discoveryItems))
            case .view(let nodes): ("get", OfflineQuery.items("view", nodes))
            case .remove(let nodes): ("set", OfflineQuery.items("remove", nodes))
            }
        return Array("<iq type=\"\(type)\" id=\"\(id.xmlEscaped)\">\(content)</iq>".utf8)
    }

    private static func discovery(_ namespace: StaticString) -> String {
        "<query xmlns=\"\(namespace)\" node=\"\(XMLNamespace.offline)\"/>"
    }

    private static func items(_ action: String, _ nodes: [String]) -> String {
        let items = nodes.map { "<item action=\"\(action)\" node=\"\($0.xmlEscaped)\"/>" }
        return "<offline xmlns=\"\(XMLNamespace.offline)\">\(items.joined())</offline>"
    }

    /// Notes the node of a message that is asked for, the last one that it names, since senders can name others before;
    /// returns whether it has one, and so stays stored.
    mutating func note(_ stanza: Stanza) -> Bool {
        guard answer == nil, case .view(let nodes) = request, stanza.element(0, is: "message", in: XMLNamespace.client),
            let offline = stanza.children().last(where: { stanza.element($0, is: "offline", in: XMLNamespace.offline) }
            ),
            let item = stanza.child("item", in: XMLNamespace.offline, of: offline),
            let node = stanza.attribute("node", of: item).map(stanza.string),
            nodes.contains(node), !viewed.contains(node)
        else { return false }
        viewed.append(node)
        return true
    }

    /// Takes a stanza of our own account; returns whether it is the answer.
    mutating func take(_ stanza: Stanza) -> Bool {
        guard answer == nil, let isResult = stanza.isResult(of: id) else { return false }
        guard isResult else {
            answer = .refused(StanzaError(stanza).condition)
            return true
        }
        answer =
            switch request {
            case .count: OfflineQuery.count(in: stanza).map { .count($0) } ?? .refused(.featureNotImplemented)
            case .list: .list(OfflineQuery.nodes(in: stanza))
            case .view: .viewed(viewed)
            case .remove: .removed
            }
        return true
    }

    /// Notes a stanza that could not be read: the answer, if it has our id.
    mutating func skipped(_ name: StanzaName, id given: [UInt8]?) {
        guard answer == nil, name == .iq, let given, given.elementsEqual(id.utf8) else { return }
        answer = .refused(.resourceConstraint)
    }

    /// The number of messages, if the server has flexible retrieval: a form's field.
    private static func count(in stanza: Stanza) -> Int? {
        guard let query = stanza.child("query", in: XMLNamespace.discoveryInfo),
            stanza.children(of: query).contains(where: { feature in
                stanza.element(feature, is: "feature", in: XMLNamespace.discoveryInfo)
                    && stanza.attribute("var", of: feature).map { stanza.equals($0, XMLNamespace.offline) } == true
            }),
            let form = stanza.child("x", in: XMLNamespace.dataForm, of: query),
            let field = stanza.children(of: form).first(where: { field in
                stanza.attribute("var", of: field).map { stanza.equals($0, "number_of_messages") } == true
            }),
            let value = stanza.child("value", in: XMLNamespace.dataForm, of: field)
        else { return nil }
        return stanza.bytes[stanza.elements[value].text].decimal(most: 9)
    }

    private static func nodes(in stanza: Stanza) -> [String] {
        guard let query = stanza.child("query", in: XMLNamespace.discoveryItems) else { return [] }
        return stanza.children(of: query).compactMap { item in
            guard stanza.element(item, is: "item", in: XMLNamespace.discoveryItems),
                let node = stanza.attribute("node", of: item), (1...nodeLimit).contains(node.count)
            else { return nil }
            return stanza.string(node)
        }
    }
}

// A stream without presence, over which our account's offline store is read.
extension Session {
    /// Begins to ask about the offline store and returns the query; nil if nothing may be sent any more.
    mutating func ask(_ request: OfflineRequest) -> [UInt8]? {
        guard case .open = state else { return nil }
        pages += 1
        let query = OfflineQuery(request, id: "\(idPrefix)-offline-\(pages)")
        offline = query
        keepalive.storeRequested()
        management.wrote()
        return query.query
    }

    /// Whether messages of the offline store are asked for and may come still.
    package var isViewing: Bool { offline?.isViewing ?? false }

    /// The answer to the query once all that came before it is committed, and only once; nil until then.
    mutating func takeOfflineAnswer() -> OfflineAnswer? {
        guard let offline, let answer = offline.answer, isSettled(before: offline.number) else { return nil }
        self.offline = nil
        return answer
    }

    /// Handles a stanza that answers the query; nil if it is none.
    mutating func answered(_ stanza: Stanza) -> StanzaAction? {
        guard isFromOwnAccount(stanza), offline?.take(stanza) == true else { return nil }
        hasTakenStanza = true
        management.noted()
        if management.isActive { offline?.number = management.received }
        return .answer([])
    }
}
