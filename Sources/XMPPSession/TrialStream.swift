package import NIOCore
import Synchronization
package import Vocabulary
import XMLWire
package import XMPP

/// What has come over a ``TrialStream`` so far.
package struct TrialNews: Sendable {
    package struct Message: Sendable {
        package var id: String
        /// The ledger's key, unless it belongs in quarantine.
        package var key: Digest128?
        /// The key that it would have with the sender's other `id_scope`.
        package var otherKey: (scope: IDScope, key: Digest128)?
        /// The verbatim text of `data`.
        package var data: String
    }

    package var stream: BoundStream?
    package var management: StreamManagement.Outcome?
    /// How many of our stanzas the server has, and whether it hears us (``XMPP/Session``).
    package var confirmed: UInt32 = 0
    package var isHeard = false
    package var messages: [Message] = []
    package var ids: Set<String> = []
    /// Our own messages that came back, and why.
    package var returned: [String: StanzaErrorCondition] = [:]
    /// Answers by their ids: a server's name and version (XEP-0092), made safe for a terminal, or nothing.
    package var answers: [String: String] = [:]
    package var end: SessionEnd?

    /// Whether stanzas may be sent, and count.
    var isReady: Bool {
        guard let stream else { return false }
        return stream.management != .offered || management != nil || stream.resumed != nil
    }
}

/// A stream of `check --thorough` and `audit --against-archive`: it plays a worker or a device, and takes notes.
package final class TrialStream: Sendable {
    /// How long anything is waited for.
    package static let patience = TimeAmount.seconds(10)

    private let eventLoop: any EventLoop
    private let domain: String
    private let handler: NIOLoopBoundBox<StreamHandler<TrialDelegate>?>
    private let queries = Atomic(0)

    private init(_ domain: String, on eventLoop: any EventLoop) {
        (self.domain, self.eventLoop) = (domain, eventLoop)
        handler = .makeEmptyBox(valueType: StreamHandler<TrialDelegate>.self, eventLoop: eventLoop)
    }

    /// Opens one and returns it once it is ready or has ended; one that holds commits nothing until ``commit()``, and at
    /// a deadline it ends.
    package static func open(
        _ settings: SenderSettings,
        on eventLoop: any EventLoop,
        holds: Bool = false,
        resuming suspended: SuspendedSession? = nil,
        until deadline: NIODeadline? = nil
    ) async -> (stream: TrialStream, news: TrialNews) {
        let stream = TrialStream(settings.stream.domain, on: eventLoop)
        eventLoop.execute {
            let delegate = TrialDelegate(of: settings.stream.senderID, holds: holds, suspended: suspended)
            let handler = StreamHandler(settings: SharedSettings(settings), delegate: delegate)
            stream.handler.value = handler
            delegate.deadline = deadline.map {
                eventLoop.scheduleTask(deadline: $0) { stream.handler.value?.closeNow() }
            }
            handler.connect(on: eventLoop)
        }
        // The stream has its own deadline.
        return (stream, await stream.wait(.minutes(5)) { $0.isReady })
    }

    package var news: TrialNews { get async { await wait(.zero) { _ in true } } }

    /// The messages that have come, which are forgotten.
    package func takeMessages() async -> [TrialNews.Message] {
        let promise = eventLoop.makePromise(of: [TrialNews.Message].self)
        eventLoop.execute { [handler] in promise.succeed(handler.value?.delegate.takeMessages() ?? []) }
        return await promise.futureResult.value
    }

    /// Waits until something is so, the stream has ended, or the time is over; returns what there is then.
    package func wait(
        _ limit: TimeAmount = patience,
        until isSo: @escaping @Sendable (TrialNews) -> Bool
    ) async -> TrialNews {
        let promise = eventLoop.makePromise(of: TrialNews.self)
        eventLoop.execute { [handler, eventLoop] in
            guard let handler = handler.value else { return promise.succeed(TrialNews()) }
            handler.delegate.wait(limit, on: eventLoop, until: isSo, promise)
        }
        return await promise.futureResult.value
    }

    /// Sends XML as it is; without effect on a stream that is not bound.
    package func send(_ xml: String, stanzas: Int = 1) {
        eventLoop.execute { [handler] in
            guard let handler = handler.value, let bound = handler.bound, bound.session.canSend else { return }
            _ = bound.session.wrote(stanzas)
            handler.write(Array(xml.utf8))
            handler.flush()
        }
    }

    /// Asks the server, whose answer follows all that was sent before; nil if none comes in time.
    package func ask(_ query: String, _ limit: TimeAmount = patience) async -> String? {
        let id = "trial-\(queries.add(1, ordering: .relaxed).newValue)"
        send("<iq type=\"get\" id=\"\(id)\" to=\"\(domain)\">\(query)</iq>")
        return await wait(limit) { $0.answers[id] != nil }.answers[id]
    }

    /// Commits what has come, and what will.
    package func commit() {
        eventLoop.execute { [handler] in handler.value?.delegate.release() }
    }

    /// Ends the connection without a word to the server; returns the session to resume, if any.
    package func cut() async -> SuspendedSession? {
        eventLoop.execute { [handler] in handler.value?.closeChannel() }
        _ = await wait { $0.end != nil }
        let promise = eventLoop.makePromise(of: SuspendedSession?.self)
        eventLoop.execute { [handler] in promise.succeed(handler.value?.bound?.session.suspended) }
        return await promise.futureResult.value
    }

    /// Closes the stream properly.
    package func close() async {
        commit()
        eventLoop.execute { [handler] in handler.value?.shutDown() }
        _ = await wait { $0.end != nil }
    }

    /// Asks about messages that the account's server keeps, over a stream without presence; nil if it ends before.
    package func ask<Request: StoreRequest>(_ request: Request, _ limit: TimeAmount = patience) async -> Request.Answer?
    {
        let promise = eventLoop.makePromise(of: Request.Answer?.self)
        eventLoop.execute { [handler] in
            guard let stream = handler.value else { return promise.succeed(nil) }
            stream.ask(for: AwaitedPage(request, promise))
        }
        let timer = eventLoop.scheduleTask(in: limit) { [handler] in handler.value?.closeNow() }
        defer { timer.cancel() }
        return await promise.futureResult.value
    }
}

/// The notes of a ``TrialStream``, on its event loop.
final class TrialDelegate: PageReader {
    static var takesMessages: Bool { true }

    private struct Waiter {
        let isSo: (TrialNews) -> Bool
        let promise: EventLoopPromise<TrialNews>
        let timer: Scheduled<Void>
    }

    let suspended: SuspendedSession?
    var page: AwaitedPage?
    /// Ends the stream when its time is over.
    var deadline: Scheduled<Void>?
    private let sender: String
    private weak var handler: StreamHandler<TrialDelegate>?
    private var news = TrialNews()
    private var holds: Bool
    private var uncommitted: [IncomingMessage] = []
    private var waiters: [Int: Waiter] = [:]
    private var lastWaiter = 0

    init(of sender: String, holds: Bool, suspended: SuspendedSession?) {
        (self.sender, self.holds, self.suspended) = (sender, holds, suspended)
    }

    func wait(
        _ limit: TimeAmount,
        on eventLoop: any EventLoop,
        until isSo: @escaping (TrialNews) -> Bool,
        _ promise: EventLoopPromise<TrialNews>
    ) {
        guard news.end == nil, !isSo(news) else { return promise.succeed(news) }
        lastWaiter += 1
        let number = lastWaiter
        let timer = eventLoop.assumeIsolated().scheduleTask(in: limit) {
            guard let waiter = self.waiters.removeValue(forKey: number) else { return }
            waiter.promise.succeed(self.news)
        }
        waiters[number] = Waiter(isSo: isSo, promise: promise, timer: timer)
    }

    private func tell() {
        for (number, waiter) in waiters where news.end != nil || waiter.isSo(news) {
            waiters[number] = nil
            waiter.timer.cancel()
            waiter.promise.succeed(news)
        }
    }

    func takeMessages() -> [TrialNews.Message] {
        defer { (news.messages, news.ids) = ([], []) }
        return news.messages
    }

    func release() {
        holds = false
        commit()
    }

    /// Reports what has come as committed, as the worker does after its database.
    private func commit() {
        guard !holds, !uncommitted.isEmpty, let handler, let bound = handler.bound else { return }
        let messages = uncommitted
        uncommitted = []
        let size = messages.reduce(0) { $0 + $1.bytes.count }
        handler.perform(
            bound.session.committed(messages.count, size: size, now: handler.clock.monotonic()) { messages }
        )
        handler.flush()
    }

    func bound(_ stream: BoundStream, on channel: any Channel) -> Bool {
        news.stream = stream
        return true
    }

    func greeted(by handler: StreamHandler<TrialDelegate>) {
        self.handler = handler
        handler.askForPage()
        tell()
    }

    func received(_ messages: inout [IncomingMessage]) {
        for message in messages {
            func text(_ span: ByteSpan?) -> String {
                span.map { String(decoding: message.bytes.unsafeBytes[$0.range], as: UTF8.self) } ?? ""
            }
            let id = text(message.messageID)
            news.ids.insert(id)
            let key = message.quarantine == nil ? message.messageKey : nil
            let other = UpstreamCodec.otherKey(of: message, from: sender)
            news.messages.append(TrialNews.Message(id: id, key: key, otherKey: other, data: text(message.data)))
        }
        uncommitted += messages
        messages.removeAll()
    }

    func noted(_ kind: DecodedStanza, in stanza: Stanza) -> String? {
        guard let id = stanza.attribute("id", of: 0).map(stanza.string) else { return nil }
        switch kind {
        case .error(let error): news.returned[id] = error.condition
        case .other where stanza.element(0, is: "iq", in: XMLNamespace.client): answered(id, stanza)
        default: break
        }
        return nil
    }

    private func answered(_ id: String, _ stanza: Stanza) {
        guard let type = stanza.attribute("type", of: 0) else { return }
        guard stanza.equals(type, "result") || stanza.equals(type, "error") else { return }
        let query = stanza.child("query", in: XMLNamespace.version)
        let names: [StaticString] = ["name", "version"]
        let words = names.compactMap { name in
            query.flatMap { stanza.child(name, in: XMLNamespace.version, of: $0) }
                .map { PeerText.host(stanza.bytes[stanza.elements[$0].text]) }
        }
        news.answers[id] = words.joined(separator: " ")
    }

    func noticed(_ notice: StreamNotice) {
        if case .managed(let outcome) = notice { news.management = outcome }
    }

    func readEnded() {
        commit()
        handler?.finishPage()
        if let session = handler?.bound {
            (news.confirmed, news.isHeard) = (session.session.confirmed, session.session.isHeard)
        }
        tell()
    }

    func ended(_ end: SessionEnd) {
        news.end = end
        deadline?.cancel()
        page.take()?.abandon()
        tell()
    }
}
