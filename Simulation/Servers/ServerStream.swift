import CCSEmulator
import NIOCore
import XMLWire

/// The server's end of one stream: reads what the worker writes, and remembers what this stream has delivered.
class ServerStream {
    enum Event {
        case opened
        case auth
        case bind(id: String, resource: String)
        case ack(Int)
        case ping(id: String)
        case standard(StandardStream.Request)
        case closed
        /// An answer, or what calls for none.
        case other
    }

    enum Phase {
        case negotiating
        case bound
        /// The peer was told to expect the end; nothing new is delivered.
        case draining
        case over
    }

    let number: Int
    /// The worker at the other end.
    let process: Int
    unowned let account: Account
    private let framer = XMLFramer()
    private var acks = ClientAckReader()
    // Made right after it, since each needs the other.
    private(set) var link: Link?
    fileprivate(set) var phase = Phase.negotiating
    private var isSignedIn = false
    /// Copies that were delivered here and for which the worker has written no ack, by message.
    private var unanswered: [Int: Int] = [:]
    /// Copies whose acks have not arrived.
    private(set) var outstanding: [Int: Int] = [:]
    private(set) var outstandingCount = 0
    /// The last message of each device here, of those whose handler is ordered.
    private var latest: [Int: Int] = [:]

    init(_ number: Int, for process: Int, of account: Account) {
        (self.number, self.process, self.account) = (number, process, account)
    }

    func connect(_ link: Link) { self.link = link }

    var canDeliver: Bool { phase == .bound && outstandingCount < account.window }

    // MARK: What the worker writes

    /// Reads what the client has just written, before it travels: what will arrive is known then.
    func wrote(_ bytes: ByteBuffer) -> [Event] {
        var events: [Event] = []
        do {
            try bytes.withUnsafeReadableBytes { bytes throws(XMLStreamError) in
                try framer.feed(bytes) { events.append(read($0)) }
            }
        } catch {
            account.judge.fail(.wire, "stream \(number): the worker writes bad XML: \(error)")
        }
        return events
    }

    private func read(_ event: XMLStreamEvent) -> Event {
        switch event {
        case .opened: return .opened
        case .closed: return .closed
        case .skipped: return .other
        case .stanza(let stanza):
            guard stanza.equals(stanza.element(at: 0).name, "auth") else { return read(stanza) }
            framer.reset()
            return .auth
        }
    }

    func read(_ stanza: Stanza) -> Event {
        if stanza.equals(stanza.element(at: 0).name, "message") { return readAck(stanza) }
        guard stanza.equals(stanza.element(at: 0).name, "iq"), let id = stanza.attribute("id", of: 0),
            let type = stanza.attribute("type", of: 0), !stanza.equals(type, "result"), stanza.elementCount > 1
        else { return .other }
        let name = stanza.string(id)
        guard stanza.equals(stanza.element(at: 1).name, "bind") else { return .ping(id: name) }
        return .bind(id: name, resource: "r\(number)")
    }

    private func readAck(_ stanza: Stanza) -> Event {
        guard stanza.elementCount > 1 else { return .other }
        let text = stanza.element(at: 1).text
        let reading = stanza.bytes.withUnsafeBufferPointer { acks.read(UnsafeBufferPointer(rebasing: $0[text])) }
        guard case .ack = reading, let number = acks.withFields({ id, _ in MessageText.number(id) }) else {
            account.judge.fail(.wire, "stream \(self.number): not an ack: \(reading)")
            return .other
        }
        let left = unanswered[number] ?? 0
        account.judge.acked(number, on: self.number, unanswered: left)
        unanswered[number] = left > 1 ? left - 1 : nil
        return .ack(number)
    }

    func arrived(_ events: [Event]) {
        guard phase != .over else { return }
        var answer = ByteBuffer()
        for event in events {
            switch event {
            case .opened: answer.writeString(isSignedIn ? bindable : ServerText.signIn)
            case .auth:
                isSignedIn = true
                answer.writeString(ServerText.success)
            case .bind(let id, let resource):
                answer.writeString(ServerText.bound(id, resource, account))
                bound()
            case .ping(let id): answer.writeString(ServerText.result(id))
            case .ack(let number): take(number)
            case .standard(let request): handle(request)
            case .closed:
                closed()
                answer.writeString(ServerText.end)
                write(answer)
                link?.serverEnds()
                return
            case .other: break
            }
        }
        write(answer)
        if phase == .draining, outstandingCount == 0 { close() }
        account.pump()
    }

    var bindable: String { ServerText.bindable }
    func bound() { phase = .bound }
    func handle(_ request: StandardStream.Request) {}
    /// Handles the worker's end of the stream.
    func closed() {}

    private func take(_ number: Int) {
        guard let left = outstanding[number] else { return }
        outstanding[number] = left > 1 ? left - 1 : nil
        outstandingCount -= 1
        account.acked(number)
    }

    /// Handles the end of the connection, from either side or by a fault.
    func ended() {
        guard phase != .over else { return }
        phase = .over
        account.ended(self)
    }

    func write(_ bytes: ByteBuffer) {
        if bytes.readableBytes > 0 { link?.serverWrites(bytes) }
    }

    /// Delivers messages, or copies with the same ids and other content.
    func deliver(_ messages: [Int], areOthers: Bool = false) {
        var bytes = ByteBuffer()
        bytes.reserveCapacity(messages.count * 224)
        for number in messages {
            account.text.append(number, isOther: areOthers, to: &bytes)
            sent(number)
            unanswered[number, default: 0] += 1
            outstanding[number, default: 0] += 1
        }
        outstandingCount += messages.count
        account.judge.delivered(messages, on: self.number)
        write(bytes)
    }

    func sent(_ number: Int) {
        let device = account.text.device(of: number)
        account.delivered(number, after: latest[device])
        if account.text.isOrdered(number) { latest[device] = number }
    }

    /// Announces the end; the stream is closed once everything on it is acked, or after a while.
    func drain(for patience: Duration) {
        guard phase == .bound else { return }
        phase = .draining
        write(ByteBuffer(string: ServerText.draining))
        account.scheduler.after(patience, as: Scheduler.world) { [self] in close() }
    }

    /// Ends the stream properly.
    func close() {
        guard phase != .over else { return }
        write(ByteBuffer(string: ServerText.end))
        link?.serverEnds()
    }
}

/// What the server says besides messages, in the hosted service's forms.
enum ServerText {
    static let header =
        "<?xml version='1.0'?><stream:stream from='fcm.example.org' id='1' version='1.0' xmlns='jabber:client' "
        + "xmlns:stream='http://etherx.jabber.org/streams'>"
    static let signIn =
        header + "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>"
        + "</mechanisms></stream:features>"
    static let success = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
    static let bindable =
        header + "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
    static let end = "</stream:stream>"
    static let draining =
        #"<message><data:gcm xmlns:data="google:mobile:data">{"message_type":"control","#
        + #""control_type":"CONNECTION_DRAINING"}</data:gcm></message>"#

    static func bound(_ id: String, _ resource: String, _ account: Account) -> String {
        "<iq type='result' id='\(id)'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>\(account.address)/\(resource)"
            + "</jid></bind></iq>"
    }

    static func result(_ id: String) -> String { "<iq type='result' id='\(id)'/>" }
}
