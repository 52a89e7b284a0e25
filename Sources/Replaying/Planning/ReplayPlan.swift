package import MessageStore
package import Querying
package import Vocabulary

/// A request to send messages again.
package struct ReplayRequest: Sendable {
    /// The replay's name for people.
    package var name: String
    /// Which messages.
    package var filter: MessageFilter
    /// Where to.
    package var target: Target
    /// How fast.
    package var pace = ReplayPace()
    /// Who, and why.
    package var author: AuditAuthor
    /// Whether what an earlier replay has sent to the same place is sent again.
    package var includesReplayed = false

    /// Which of the selected rows a plan holds.
    struct Choice: Sendable {
        /// By what has become of them; nil for a target without handlers.
        var scope: Scope?
        /// Whether also those that an earlier replay has sent.
        var includesReplayed: Bool
    }

    /// Which of the selected rows the plan holds.
    var choice: Choice { Choice(scope: scope, includesReplayed: includesReplayed) }

    /// A target before the registered handlers are known.
    package enum Target: Sendable {
        /// These handlers, whatever they are subscribed to; if empty, those that are subscribed.
        case handlers([String], Scope)
        /// Another target.
        case other(ReplayTarget)
    }

    /// Which deliveries a replay to handlers holds, by what has become of the message at the handler.
    package enum Scope: Sendable {
        /// Only dead letters.
        case onlyFailed
        /// Dead letters, and messages received before the handler was registered.
        case notHandled
        /// Those and the ones that the handler has already handled.
        case all
    }

    package init(name: String, filter: MessageFilter, target: Target, by author: AuditAuthor) {
        self.name = name
        self.filter = filter
        self.target = target
        self.author = author
    }

    /// The scope; nil for a target without handlers.
    var scope: Scope? {
        if case .handlers(_, let scope) = target { scope } else { nil }
    }
}

/// What a plan holds, and what it leaves out.
package struct ReplayPlan: Sendable {
    /// A count with its name.
    package struct Count: Sendable, Equatable {
        /// What was counted.
        package var name: String
        /// How many.
        package var count: Int64
    }

    /// What has become of the selected messages at one handler.
    package struct HandlerCounts: Sendable, Equatable {
        /// The handler.
        package var handler: String
        /// Its dead letters.
        package var dead: Int64 = 0
        /// Received before it was registered.
        package var new: Int64 = 0
        /// Pending: it will get them without a replay.
        package var pending: Int64 = 0
        /// Handled: received since it was registered, and neither pending nor dead.
        package var handled: Int64 = 0
        /// How many of those that were asked for an earlier replay has sent to it, and which then neither wait nor are
        /// dead letters.
        package var replayed: Int64 = 0
        /// How many deliveries the plan holds.
        package var planned: Int64 = 0
    }

    /// The replay's id; nil for a dry run, which keeps nothing.
    package var id: Digest128?
    /// Its name.
    package var name: String
    /// Where it sends to.
    package var target: ReplayTarget
    /// How fast it sends.
    package var pace: ReplayPace
    /// How many messages the filter selects.
    package var selected: Int64 = 0
    /// How many deliveries or messages will be sent.
    package var planned: Int64 = 0
    /// How many of those that were asked for an earlier replay has sent to the same place.
    package var replayed: Int64 = 0
    /// The earlier replays that sent them, the one with the most first, each counted where it was the latest.
    package var earlier: [Count] = []
    /// Whether they are sent again; otherwise the plan leaves them out.
    package var includesReplayed: Bool
    /// The span of their `received_at`.
    package var span: ClosedRange<Timestamp>?
    /// By category, the largest first; the rest in one.
    package var categories: [Count] = []
    /// By handler.
    package var handlers: [HandlerCounts] = []
    /// The first messages and the last.
    package var sample: [StoredMessage] = []
    /// How long it may take, in seconds.
    package var estimate: Double = 0
    /// Whether the estimate comes from earlier replays, rather than from a guess.
    package var isMeasured = false

    /// A plan that holds nothing yet.
    init(_ request: ReplayRequest, target: ReplayTarget) {
        name = request.name
        pace = request.pace
        includesReplayed = request.includesReplayed
        self.target = target
    }
}
