import NIOCore
import XMLWire

/// A standard server's end of one connection.
final class StandardStream: ServerStream {
    enum Request {
        case enable(hold: Int?)
        case resume(id: Int, count: Int)
        /// How many of the worker's stanzas have arrived?
        case ask
        case count(Int)
        case presence(Bool)
        case receipt(Int)
        case storeCount(id: String)
        case storeList(id: String)
        case view(id: String, [Int])
        case remove(id: String, [Int])
        /// An iq that is only answered.
        case query(id: String, isPing: Bool)
    }

    private unowned let home: StandardAccount
    private let isEjabberd: Bool
    private(set) var session: StandardSession?
    private var judge: Judge { home.judge }

    init(_ number: Int, for process: Int, of account: StandardAccount, isEjabberd: Bool) {
        (home, self.isEjabberd) = (account, isEjabberd)
        super.init(number, for: process, of: account)
    }

    // The account delivers to the session.
    override var canDeliver: Bool { false }
    override var bindable: String { ServerText.managed }

    // MARK: What the worker writes

    override func read(_ stanza: Stanza) -> Event {
        func value(_ name: StaticString, of element: Int = 0) -> String? {
            stanza.attribute(name, of: element).map(stanza.string)
        }
        let count = value("h").flatMap { Int($0) } ?? -1
        let id = value("id") ?? ""
        switch stanza.string(stanza.element(at: 0).name) {
        case "enable":
            session?.isCounting = true
            return .standard(.enable(hold: value("resume") == "true" ? value("max").flatMap { Int($0) } : nil))
        case "resume":
            let previous = value("previd").flatMap { Int($0) } ?? -1
            if let session = home.session, session.id == previous { session.judge(count) }
            return .standard(.resume(id: previous, count: count))
        case "r": return .standard(.ask)
        case "a":
            session?.judge(count)
            return .standard(.count(count))
        case "presence":
            judge.note("worker → stream \(number): presence \(value("type") ?? "available")")
            session?.wrote(on: number)
            return .standard(.presence(value("type") == nil))
        case "message":
            let receipt =
                stanza.elementCount > 1
                ? value("id", of: 1).flatMap { text in
                    Array(text.utf8).withUnsafeBufferPointer { MessageText.number($0) }
                } : nil
            if receipt == nil { judge.fail(.wire, "stream \(number): not a receipt") }
            session?.wrote(receiptFor: receipt, on: number)
            return receipt.map { .standard(.receipt($0)) } ?? .other
        case "iq" where value("type") != "result" && stanza.elementCount > 1:
            if stanza.equals(stanza.element(at: 1).name, "bind") { return .bind(id: id, resource: "worker") }
            session?.wrote(on: number)
            return .standard(query(id, stanza))
        default: return .other
        }
    }

    private func query(_ id: String, _ stanza: Stanza) -> Request {
        let space = stanza.string(stanza.element(at: 1).namespace)
        guard isEjabberd, space != "urn:xmpp:ping" else { return .query(id: id, isPing: space == "urn:xmpp:ping") }
        if space.hasSuffix("#info") { return .storeCount(id: id) }
        if space.hasSuffix("#items") { return .storeList(id: id) }
        let items = stanza.children(of: 1)
        let nodes = items.compactMap { stanza.attribute("node", of: $0).flatMap { Int(stanza.string($0)) } }
        guard let action = items.first.flatMap({ stanza.attribute("action", of: $0) }), stanza.equals(action, "remove")
        else { return .view(id: id, nodes) }
        for node in nodes {
            if let item = home.storedItem(node) { judge.counted(item.number, by: "its removal") }
        }
        return .remove(id: id, nodes)
    }

    // MARK: What arrives

    override func arrived(_ events: [Event]) {
        if session?.isDeaf != true { super.arrived(events) }
    }

    override func bound() {
        session = home.bind(self)
        super.bound()
    }

    override func closed() { session?.hold = nil }

    override func close() {
        session?.hold = nil
        super.close()
    }

    /// Only a CCS announces its end.
    override func drain(for patience: Duration) {}

    override func handle(_ request: Request) {
        guard let session else {
            if case .resume(let id, let count) = request { resume(id, count) }
            return
        }
        switch request {
        case .enable(let hold):
            session.isManaged = true
            session.hold = hold.map { .seconds($0) }
            let grant = hold.map { " id='\(session.id)' resume='true' max='\($0)'" } ?? ""
            say("<enabled xmlns='urn:xmpp:sm:3'\(grant)/>")
            return
        case .ask: return say("<a xmlns='urn:xmpp:sm:3' h='\(session.handled)'/>")
        case .count(let count): return home.confirm(session, count)
        case .resume: return
        case .presence, .receipt, .storeCount, .storeList, .view, .remove, .query: session.arrived()
        }
        switch request {
        case .presence(let isPresent):
            // Its own presence comes back, and is counted like any stanza.
            answer("<presence/>", session)
            home.present(session, isPresent)
        case .receipt(let message): home.received(message)
        case .storeCount(let id): answer(ServerText.result(id, ServerText.count(home.storedNodes.count)), session)
        case .storeList(let id): answer(ServerText.result(id, ServerText.list(home.storedNodes)), session)
        case .view(let id, let nodes): view(id, nodes, session)
        case .remove(let id, let nodes):
            home.removeStored(nodes)
            answer(ServerText.result(id), session)
        case .query(let id, let isPing): answer(isPing ? ServerText.result(id) : ServerText.refusal(id), session)
        case .enable, .resume, .ask, .count: break
        }
    }

    private func resume(_ id: Int, _ count: Int) {
        guard let session = home.resumable(id) else {
            return say(
                "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
            )
        }
        guard home.resume(session, on: self, count) else { return }
        self.session = session
        super.bound()
        judge.note("stream \(number) resumes session \(session.id)")
        say("<resumed xmlns='urn:xmpp:sm:3' previd='\(id)' h='\(session.handled)'/>")
        home.sendAgain(session)
    }

    // MARK: What the server writes

    func say(_ text: String) { write(ByteBuffer(string: text)) }

    private func answer(_ text: String, _ session: StandardSession) {
        session.append(.other)
        say(text)
    }

    /// Sends messages that the session keeps already, and sometimes asks how many have arrived.
    func deliver(_ items: [StandardAccount.Item]) {
        guard !items.isEmpty else { return }
        var bytes = ByteBuffer()
        for item in items {
            let note = item.isLate ? ServerText.late : ""
            account.text.append(item.number, isOther: item.isOther, note: note, to: &bytes)
            sent(item.number)
        }
        judge.delivered(items.map(\.number), on: number)
        bytes.writeString("<r xmlns='urn:xmpp:sm:3'/>")
        write(bytes)
    }

    private func view(_ id: String, _ nodes: [Int], _ session: StandardSession) {
        for node in nodes {
            guard let item = home.storedItem(node) else { continue }
            session.append(.viewed(item.number))
            sent(item.number)
            judge.delivered([item.number], on: number)
            var bytes = ByteBuffer()
            account.text.append(item.number, isOther: item.isOther, note: ServerText.viewed(node), to: &bytes)
            write(bytes)
        }
        answer(ServerText.result(id), session)
    }

    /// Ends the stream with an error.
    func fail(_ condition: String) {
        say("<stream:error><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>")
        close()
    }
}

extension ServerText {
    static let managed =
        header
        + "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"
    /// A server's note of when it stored a message.
    static let late = "<delay xmlns='urn:xmpp:delay' from='\(Account.domain)' stamp='2027-01-15T08:00:00Z'/>"
    private static let offline = "http://jabber.org/protocol/offline"

    static func viewed(_ node: Int) -> String { late + "<offline xmlns='\(offline)'><item node='\(node)'/></offline>" }

    static func result(_ id: String, _ content: String) -> String { "<iq type='result' id='\(id)'>\(content)</iq>" }

    static func refusal(_ id: String) -> String {
        "<iq type='error' id='\(id)'><error type='cancel'><service-unavailable "
            + "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    }

    static func count(_ count: Int) -> String {
        "<query xmlns='http://jabber.org/protocol/disco#info' node='\(offline)'><feature var='\(offline)'/>"
            + "<x xmlns='jabber:x:data' type='result'><field var='number_of_messages'><value>\(count)</value></field></x></query>"
    }

    static func list(_ nodes: [Int]) -> String {
        let items = nodes.map { "<item jid='42@\(Account.domain)' node='\($0)'/>" }.joined()
        return "<query xmlns='http://jabber.org/protocol/disco#items' node='\(offline)'>\(items)</query>"
    }
}
