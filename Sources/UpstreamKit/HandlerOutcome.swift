/// What became of a message in a handler.
public enum HandlerOutcome: Sendable, Hashable {
    /// The handler has taken the message; it won't see it again, short of a replay.
    case done

    /// Not now: the message comes again, later.
    ///
    /// `after` is the shortest wait; nil leaves it to the registration's ``RetryPolicy``, whose `maximum` also caps it.
    /// `reason` is kept in the delivery's `last_error`; don't quote the payload.
    case retry(after: Duration? = nil, reason: String? = nil)

    /// Never: the message is set aside as a dead letter at once, to be looked at by a person.
    ///
    /// `reason` is kept with it and groups it with others of its kind; don't quote the payload.
    case reject(reason: String)
}
