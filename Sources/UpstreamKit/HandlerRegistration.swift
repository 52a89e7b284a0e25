package import Vocabulary

/// A handler, the messages it wants, and how they are given to it.
public struct HandlerRegistration: Sendable {
    /// The name in tables, metrics and logs: unique in the installation, see ``RegistrationError/Code/name``.
    ///
    /// The name is the handler's identity: deliveries wait under it, so a renamed handler starts anew.
    public var name: String

    /// Which categories it wants.
    public var categories: CategorySet

    /// How many messages it is given at the same time, at least 1.
    public var concurrency: Int = HandlerRegistration.defaultConcurrency

    /// In which order it is given them.
    public var ordering: HandlerOrdering = .none

    /// When failed messages are retried.
    public var retry: RetryPolicy = RetryPolicy()

    /// How many attempts may begin in a time, in each worker; nil for as many as there are.
    public var rate: HandlerRate?

    /// The longest time for one call; then its task is cancelled and the message is retried.
    public var timeout: Duration = HandlerRegistration.defaultTimeout

    /// What runs.
    package var body: Body

    /// Whether no message can crash the worker: what works on it is elsewhere.
    package var isContained: Bool {
        switch body {
        case .handler(let handler): handler is any ContainedHandler
        case .function: true
        }
    }

    /// The concurrency of a registration that names none.
    public static let defaultConcurrency = 4

    /// The timeout of a registration that names none.
    public static let defaultTimeout = Duration.seconds(60)

    /// What runs when a message is due.
    package enum Body: Sendable {
        /// Swift code in this process; subprocesses and webhooks are such code, too.
        case handler(any UpstreamHandler)
        /// A database function, called inside the transaction that completes the delivery.
        case function(SQLFunction)
    }

    /// A registration of Swift code.
    ///
    /// - Parameters:
    ///   - name: Unique among all handlers of the installation.
    ///   - categories: The categories it wants: exact names, or ``CategorySet/all``.
    ///   - handler: The code.
    public init(_ name: String, categories: CategorySet, handler: any UpstreamHandler) {
        self.init(name: name, categories: categories, body: .handler(handler))
    }

    /// A registration of code or of a database function.
    package init(name: String, categories: CategorySet, body: Body) {
        self.name = name
        self.categories = categories
        self.body = body
    }
}

/// The categories a handler is subscribed to.
public struct CategorySet: Sendable, Hashable, ExpressibleByArrayLiteral {
    /// The exact names, or nil for every category.
    ///
    /// UTF-8 bytes: Swift's `String ==` would take two spellings of one text for the same category.
    private let members: Set<[UInt8]>?

    /// Every category, also those seen for the first time tomorrow.
    public static let all = CategorySet(members: nil)

    /// The categories with these names; one that is `*` means all.
    public init(_ names: some Sequence<String>) {
        let members = Set(names.map { Array($0.utf8) })
        self.init(members: members.contains([UInt8(ascii: "*")]) ? nil : members)
    }

    /// The categories with these names; one that is `*` means all.
    public init(arrayLiteral names: String...) {
        self.init(names)
    }

    private init(members: Set<[UInt8]>?) {
        self.members = members
    }

    /// Whether this is every category.
    public var isAll: Bool { members == nil }

    /// The exact names in byte order, or `["*"]`: the form that configuration and tables hold.
    public var names: [String] {
        guard let members else { return ["*"] }
        return members.sorted { $0.lexicographicallyPrecedes($1) }.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether messages of this category belong to it; names compare as UTF-8 bytes.
    public func contains(_ category: String) -> Bool {
        guard let members else { return true }
        return members.contains(Array(category.utf8))
    }
}

/// In which order a handler is given its messages.
public enum HandlerOrdering: String, Sendable, Hashable, CaseIterable {
    /// As they become due, side by side.
    case none
    /// One at a time for each device, in arrival order; a failing message holds back its device's next ones.
    case device
}

/// How many attempts at messages may begin in a time; retries count as well as first attempts.
///
/// It holds for each worker by itself. Messages over the rate wait in the table, where any worker may take them.
public struct HandlerRate: Sendable, Hashable {
    /// How many, from 1 to 1,000,000.
    public var count: Int

    /// In which time, above zero.
    public var period: Duration

    /// A rate.
    ///
    /// - Parameters:
    ///   - count: How many attempts, from 1 to 1,000,000.
    ///   - period: In which time.
    public init(_ count: Int, per period: Duration = .seconds(1)) {
        self.count = count
        self.period = period
    }
}

/// When a failed message is retried: exponential back-off with full jitter.
///
/// The defaults reach over a day: the waits add up to 31 hours on average, and to less than 24 in about one case of a thousand.
public struct RetryPolicy: Sendable, Hashable {
    /// How many attempts a message gets before it becomes a dead letter, at least 1.
    public var maxAttempts: Int

    /// The longest wait after the first failure; each further failure doubles it.
    public var initial: Duration

    /// The longest wait of all, also for a wait the handler asked for.
    public var maximum: Duration

    /// A policy with these values.
    ///
    /// - Parameters:
    ///   - maxAttempts: Attempts before a message becomes a dead letter.
    ///   - initial: The longest wait after the first failure.
    ///   - maximum: The longest wait of all.
    public init(maxAttempts: Int = 75, initial: Duration = .seconds(1), maximum: Duration = .seconds(3600)) {
        self.maxAttempts = maxAttempts
        self.initial = initial
        self.maximum = maximum
    }
}
