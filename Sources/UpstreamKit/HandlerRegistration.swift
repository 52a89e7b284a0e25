package import Vocabulary

/// A handler, the messages it wants, and how it gets them.
public struct HandlerRegistration: Sendable {
    /// The name in tables, metrics and logs, unique in the installation; a renamed handler starts anew.
    public var name: String

    /// The categories it wants.
    public var categories: CategorySet

    /// How many messages it gets at the same time, at least 1.
    public var concurrency: Int = HandlerRegistration.defaultConcurrency

    /// The order in which it gets them.
    public var ordering: HandlerOrdering = .none

    /// When failed messages are retried.
    public var retry: RetryPolicy = RetryPolicy()

    /// How many attempts may start in a period, in each worker; nil for unlimited.
    public var rate: HandlerRate?

    /// What holds over all workers together; nil for nothing.
    public var limit: HandlerLimit?

    /// The time limit of a call; then its task is cancelled and the message is retried.
    public var timeout: Duration = HandlerRegistration.defaultTimeout

    /// The clauses of `where` in the form of `upstream.handler_workers.filter`; nil for every message of the categories.
    package var filter: String?

    package var body: Body

    /// Whether no message can crash the worker, since it is processed elsewhere.
    package var isContained: Bool {
        switch body {
        case .handler(let handler): handler is any ContainedHandler
        case .function: true
        }
    }

    /// The default concurrency.
    public static let defaultConcurrency = 4

    /// The default timeout.
    public static let defaultTimeout = Duration.seconds(60)

    package enum Body: Sendable {
        /// Swift code in this process, including that which runs subprocesses and webhooks.
        case handler(any UpstreamHandler)
        /// A database function, called inside the transaction that completes its deliveries: so many at once at the most.
        case function(SQLFunction, batch: Int)
    }

    /// A registration of Swift code.
    public init(_ name: String, categories: CategorySet, handler: any UpstreamHandler) {
        self.init(name: name, categories: categories, body: .handler(handler))
    }

    package init(name: String, categories: CategorySet, body: Body) {
        self.name = name
        self.categories = categories
        self.body = body
    }
}

/// The categories that a handler subscribes to.
public struct CategorySet: Sendable, Hashable, ExpressibleByArrayLiteral {
    /// Names and prefixes, or nil for every category; bytes, since `String ==` takes different spellings for equal.
    private let members: Set<[UInt8]>?

    /// Every category, including future ones.
    public static let all = CategorySet(members: nil)

    /// The categories with these names, or prefixes that end with `.*`; `*` among them means all.
    public init(_ names: some Sequence<String>) {
        let members = Set(names.map { Array($0.utf8) })
        self.init(members: members.contains([UInt8(ascii: "*")]) ? nil : members)
    }

    /// The categories with these names or prefixes.
    public init(arrayLiteral names: String...) {
        self.init(names)
    }

    private init(members: Set<[UInt8]>?) {
        self.members = members
    }

    /// Whether this is every category.
    public var isAll: Bool { members == nil }

    /// The names and prefixes in byte order, or `["*"]`: the form of configuration and tables.
    public var names: [String] {
        guard let members else { return ["*"] }
        return members.sorted { $0.lexicographicallyPrecedes($1) }.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether it includes a category; names compare as UTF-8 bytes.
    public func contains(_ category: String) -> Bool {
        guard let members else { return true }
        let bytes = Array(category.utf8)
        return members.contains(bytes) || prefixes.contains { bytes.starts(with: $0) }
    }

    /// The names.
    package var exact: [[UInt8]] { members?.filter { $0.last != Self.star } ?? [] }

    /// The prefixes without their star.
    package var prefixes: [[UInt8]] { members?.filter { $0.last == Self.star }.map { $0.dropLast() } ?? [] }

    private static let star = UInt8(ascii: "*")

    /// The rule of ``isValid(entry:)``, as the rest of a sentence.
    package static let entryRule =
        "an exact name of at most 255 bytes, a prefix that ends with \".*\" (\"com.example.*\"), or \"*\" alone for all"

    /// Whether a text can be a member: devices choose categories, so a prefix ends where a word does.
    package static func isValid(entry: String) -> Bool {
        let name = entry.hasSuffix(".*") ? entry.dropLast(2) : entry[...]
        return entry == "*" || (1...255).contains(entry.utf8.count) && !name.isEmpty && !name.utf8.contains(star)
    }
}

/// The order in which a handler gets its messages.
public enum HandlerOrdering: String, Sendable, Hashable, CaseIterable {
    /// As they become due, concurrently.
    case none
    /// One at a time for each device, in arrival order; a failing message holds back its device's next ones.
    case device
}

/// How many attempts, retries included, may start in a period in each worker.
///
/// Messages over the rate wait in the table, where any worker may take them.
public struct HandlerRate: Sendable, Hashable {
    /// The number of attempts, from 1 to 1,000,000.
    public var count: Int

    /// The period, above zero.
    public var period: Duration

    /// A rate.
    public init(_ count: Int, per period: Duration = .seconds(1)) {
        self.count = count
        self.period = period
    }
}

/// What holds for a handler over all workers together: each has a share, which moves as workers come and go.
///
/// A worker that the database can't be reached by keeps its share for the time of a lease, and nobody else has it then.
public struct HandlerLimit: Sendable, Hashable {
    /// How many messages the handler gets at the same time, at least 1; nil for as many as its workers allow.
    public var concurrency: Int?

    /// How many attempts, retries included, may start in a period; nil for unlimited.
    public var rate: HandlerRate?

    /// A limit.
    public init(concurrency: Int? = nil, rate: HandlerRate? = nil) {
        self.concurrency = concurrency
        self.rate = rate
    }

    /// The number of equal parts that workers share: each is worth at least one message at a time and one attempt in a
    /// period.
    package var parts: Int { min(concurrency ?? .max, rate?.count ?? .max, 1_000) }
}

/// When a failed message is retried: exponential back-off with full jitter.
///
/// With the defaults, the waits add up to 31 hours on average, and to less than 24 in about one of a thousand cases.
public struct RetryPolicy: Sendable, Hashable {
    /// The attempts a message gets before it becomes a dead letter, at least 1.
    public var maxAttempts: Int

    /// The longest wait after the first failure; each further failure doubles it.
    public var initial: Duration

    /// The longest wait of all, including waits that the handler asks for.
    public var maximum: Duration

    /// A policy with these values.
    public init(maxAttempts: Int = 75, initial: Duration = .seconds(1), maximum: Duration = .seconds(3600)) {
        self.maxAttempts = maxAttempts
        self.initial = initial
        self.maximum = maximum
    }
}
