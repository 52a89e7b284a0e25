/// A request to our account's server about messages that it keeps: for a page of its archive, or about its offline store.
package protocol StoreRequest: Sendable {
    associatedtype Answer: Sendable

    /// Begins to ask and returns the query; nil if nothing may be sent any more.
    func ask(in session: inout Session) -> [UInt8]?
    /// The answer once all that came with it is committed, and only once; nil until then.
    func takeAnswer(from session: inout Session) -> Answer?
}

extension ArchiveRequest: StoreRequest {
    package func ask(in session: inout Session) -> [UInt8]? { session.ask(self) }

    package func takeAnswer(from session: inout Session) -> ArchiveAnswer? { session.takeAnswer() }
}

extension OfflineRequest: StoreRequest {
    package func ask(in session: inout Session) -> [UInt8]? { session.ask(self) }

    package func takeAnswer(from session: inout Session) -> OfflineAnswer? { session.takeOfflineAnswer() }
}
