package import Querying

/// What somebody wants to have sent again.
package struct ReplayRequest: Sendable {
    /// The name that people will call it by.
    package var name: String
    /// Which messages.
    package var filter: MessageFilter
    /// Where to.
    package var target: Wish
    /// How fast.
    package var pace = ReplayPace()
    /// Why.
    package var reason: String?
    /// Who: user and host.
    package var who: String

    /// A target before it is known which handlers there are.
    package enum Wish: Sendable {
        /// These handlers, whatever they are subscribed to; where there are none, those subscribed.
        case handlers([String], Standing)
        /// Another target.
        case other(ReplayTarget)
    }

    /// Which deliveries a replay to handlers holds, by what has become of the message at the handler.
    package enum Standing: Sendable {
        /// Dead letters alone.
        case onlyFailed
        /// Dead letters, and messages from before the handler was registered.
        case notHandled
        /// Those that the handler has had as well.
        case all
    }

    package init(name: String, filter: MessageFilter, target: Wish, who: String) {
        self.name = name
        self.filter = filter
        self.target = target
        self.who = who
    }
}

/// What a plan holds, and what it leaves out.
package struct ReplayPlan: Sendable {
    /// How many of something.
    package struct Count: Sendable, Equatable {
        /// Of what.
        package var name: String
        /// How many.
        package var count: Int64
    }

    /// What has become of the selected messages at one handler.
    package struct HandlerCounts: Sendable, Equatable {
        /// The handler.
        package var handler: String
        /// It gave up on them.
        package var dead: Int64 = 0
        /// They are from before it was registered.
        package var new: Int64 = 0
        /// They wait for it now, and come by themselves.
        package var pending: Int64 = 0
        /// It has had them: received while it was registered, and neither pending nor dead.
        package var handled: Int64 = 0
        /// How many deliveries the plan holds.
        package var planned: Int64 = 0
    }

    /// The replay's id; nil for a dry run, which leaves nothing.
    package var id: String?
    /// Its name.
    package var name: String
    /// Where it sends to.
    package var target: ReplayTarget
    /// How it sends.
    package var pace: ReplayPace
    /// How many messages the filter selects.
    package var selected: Int64
    /// How many deliveries, or messages, will be sent.
    package var planned: Int64
    /// The span of their `received_at`, in microseconds since 1970-01-01 UTC.
    package var span: ClosedRange<Int64>?
    /// The categories, the largest first; the rest in one.
    package var categories: [Count]
    /// By handler.
    package var handlers: [HandlerCounts]
    /// The first ones and the last one.
    package var sample: [StoredMessage]
    /// How long it may take, in seconds.
    package var estimate: Double
    /// Whether the estimate rests on what was measured before, rather than on a guess.
    package var isMeasured: Bool
}
