/// What became of a message in a handler.
public enum HandlerOutcome: Sendable, Hashable {
    /// The handler has processed the message and won't see it again, unless it is replayed.
    case done

    /// Try again later.
    ///
    /// `after` is the shortest wait; nil leaves it to the registration's ``RetryPolicy``, whose `maximum` also caps it.
    /// `reason` is kept in the delivery's `last_error`; don't quote the payload.
    case retry(after: Duration? = nil, reason: String? = nil)

    /// Never: the message becomes a dead letter at once, for a person to look at.
    ///
    /// `reason` is kept with it and groups it with others of its kind; don't quote the payload.
    case reject(reason: String)
}
