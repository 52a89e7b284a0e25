import NIOCore
import XMPP

/// A page of our account's archive that somebody waits for.
struct AwaitedPage {
    let request: ArchiveRequest
    /// Fulfilled once all of it is committed; nil if the connection ends before.
    let promise: EventLoopPromise<ArchiveAnswer?>
    var isAsked = false
}

// Reading our account's archive.
extension StreamHandler where Delegate == MessageReceiver {
    /// Asks for a page, once the stream is bound.
    func ask(for page: AwaitedPage) {
        if case .ended = phase { return page.promise.succeed(nil) }
        delegate.page = page
        askForPage()
    }

    func askForPage() {
        guard case .bound(let bound) = phase, let page = delegate.page, !page.isAsked else { return }
        // A stream that is ending fulfils the promise at its end.
        guard let query = bound.session.ask(page.request) else { return }
        delegate.page?.isAsked = true
        write(query)
        flush()
    }

    /// Hands the page over once all of it is committed.
    func finishPage() {
        guard delegate.page != nil, let answer = bound?.session.takeAnswer() else { return }
        delegate.page.take()?.promise.succeed(answer)
    }
}
