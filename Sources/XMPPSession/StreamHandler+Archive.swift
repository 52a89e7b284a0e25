import NIOCore
import XMPP

/// A page of our account's archive, or of its offline store, that somebody waits for.
struct AwaitedPage {
    /// Begins to ask for it and returns the query; nil if nothing may be sent any more.
    let ask: @Sendable (inout Session) -> [UInt8]?
    /// Hands it over once all of it is committed; returns whether it has.
    let finish: (inout Session) -> Bool
    /// Tells that the connection has ended before.
    let abandon: () -> Void
    var isAsked = false
    /// Whether the stream is closed once it has come.
    var isLast = false

    /// A page whose promise is fulfilled with the answer to this request.
    init<Request: StoreRequest>(_ request: Request, _ promise: EventLoopPromise<Request.Answer?>) {
        ask = { request.ask(in: &$0) }
        finish = { session in
            guard let answer = request.takeAnswer(from: &session) else { return false }
            promise.succeed(answer)
            return true
        }
        abandon = { promise.succeed(nil) }
    }
}

/// A delegate that waits for a page.
protocol PageReader: StreamDelegate {
    var page: AwaitedPage? { get set }
}

// Reading our account's archive, or its offline store.
extension StreamHandler where Delegate: PageReader {
    /// Asks for a page, once the stream is bound.
    func ask(for page: AwaitedPage) {
        if case .ended = phase { return page.abandon() }
        delegate.page = page
        askForPage()
    }

    func askForPage() {
        guard case .bound(let bound) = phase, let page = delegate.page, !page.isAsked else { return }
        // A stream that is ending fulfils the promise at its end.
        guard let query = page.ask(&bound.session) else { return }
        delegate.page?.isAsked = true
        write(query)
        flush()
    }

    /// Hands the page over once all of it is committed.
    func finishPage() {
        guard let bound, let page = delegate.page.take() else { return }
        guard page.finish(&bound.session) else {
            delegate.page = page
            return
        }
        if page.isLast { shutDown() }
    }

    /// The longest wait for the rest of a page at the end: the connection may be dead.
    private static var restTimeout: TimeAmount { .seconds(5) }

    /// Closes the connection properly, in the middle of a page of the offline store once that has come: the server would
    /// return to their senders the messages that it has sent and we have not read.
    func shutDownAfterPage() {
        guard case .bound(let bound) = phase, bound.session.isViewing, delegate.page != nil, let context else {
            return shutDown()
        }
        delegate.page?.isLast = true
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.restTimeout) { self.shutDown() }
    }
}
