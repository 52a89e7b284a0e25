package import MessageStore
package import Querying
package import Vocabulary

package struct ReplayRequest: Sendable {
    package var name: String
    package var filter: MessageFilter
    package var target: Target
    package var pace = ReplayPace()
    package var author: AuditAuthor
    /// Whether to resend what an earlier replay has sent to the same place.
    package var includesReplayed = false

    /// A target before the registered handlers are known.
    package enum Target: Sendable {
        /// These handlers, whatever they are subscribed to; if empty, all subscribed ones.
        case handlers([String], Scope)
        case other(ReplayTarget)
    }

    /// The deliveries of a replay to handlers, by the message's state at the handler.
    package enum Scope: String, Sendable {
        case onlyFailed = "only_failed"
        /// Dead letters, and messages received before the handler was registered.
        case notHandled = "not_handled"
        /// Those, and messages that the handler has already handled.
        case all
    }

    /// What a name may be: it is used in commands.
    package static func isName(_ name: String) -> Bool {
        (1...100).contains(name.utf8.count) && !name.hasPrefix("-")
            && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.:".contains($0)) }
    }

    package init(name: String, filter: MessageFilter, target: Target, by author: AuditAuthor) {
        (self.name, self.filter, self.target, self.author) = (name, filter, target, author)
    }

    var scope: Scope? {
        if case .handlers(_, let scope) = target { scope } else { nil }
    }
}

package struct ReplayPlan: Sendable {
    package struct Count: Sendable, Equatable {
        package var name: String
        package var count: Int64
    }

    /// A replay that has sent some of a plan's messages before.
    package struct Earlier: Sendable, Equatable {
        package var replay: String
        package var count: Int64
    }

    /// The states of the selected messages at one handler.
    package struct HandlerCounts: Sendable, Equatable {
        package var handler: String
        package var dead: Int64 = 0
        /// Received before it was registered.
        package var new: Int64 = 0
        /// Pending: will be delivered without a replay.
        package var pending: Int64 = 0
        /// Handled: received since it was registered, and neither pending nor dead.
        package var handled: Int64 = 0
        /// Requested ones that an earlier replay has sent to it, and that are neither pending nor dead letters.
        package var replayed: Int64 = 0
        package var planned: Int64 = 0
    }

    package var id: Digest128?
    package var name: String
    package var target: ReplayTarget
    package var pace: ReplayPace
    package var selected: Int64 = 0
    package var planned: Int64 = 0
    /// How many of the requested rows an earlier replay has sent to the same place.
    package var replayed: Int64 = 0
    /// The earlier replays that sent them, the largest first; each row counts for the latest.
    package var earlier: [Earlier] = []
    /// Whether they are sent again; otherwise the plan leaves them out.
    package var includesReplayed: Bool
    package var span: ClosedRange<Timestamp>?
    /// By category, the largest first, and the rest in one.
    package var categories: [Count] = []
    package var handlers: [HandlerCounts] = []
    package var sample: [StoredMessage] = []
    package var estimate: Double = 0
    /// Whether the estimate comes from earlier replays instead of a guess.
    package var isMeasured = false

    init(_ request: ReplayRequest, target: ReplayTarget) {
        (name, pace, includesReplayed) = (request.name, request.pace, request.includesReplayed)
        self.target = target
    }

    /// Adds a row of ``PlanStatements/standings(_:)``.
    mutating func count(_ row: (handler: Int?, standing: String, count: Int64, planned: Int64, replayed: Int64)) {
        planned += row.planned
        replayed += row.replayed
        guard let place = row.handler.map({ $0 - 1 }), handlers.indices.contains(place) else { return }
        handlers[place].planned += row.planned
        handlers[place].replayed += row.replayed
        switch row.standing {
        case "p": handlers[place].pending = row.count
        case "x": handlers[place].dead = row.count
        case "n": handlers[place].new = row.count
        default: handlers[place].handled = row.count
        }
    }
}
