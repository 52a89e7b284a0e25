/// What became of a message in a handler.
public enum HandlerOutcome: Sendable, Hashable {
    /// The handler has processed the message and won't see it again, unless it is replayed.
    case done

    /// Try again later.
    ///
    /// `after` is the shortest wait; nil leaves it to the registration's ``RetryPolicy``, whose `maximum` caps both.
    /// `reason` is stored in the delivery's `last_error`; don't quote the payload.
    case retry(after: Duration? = nil, reason: String? = nil)

    /// Reject the message: it becomes a dead letter at once, for a person to look at.
    ///
    /// `reason` is stored with it and groups it with similar ones; don't quote the payload.
    case reject(reason: String)
}
