import Digests
import Logging
import Synchronization
import Telemetry

/// The tokens that are valid now.
///
/// Kept as digests, and read again from their files every few seconds while somebody asks: a token that was added works, and
/// one that was removed no longer does, without a restart.
final class TokenRegistry: Sendable {
    /// A valid token.
    struct Entry: Sendable {
        /// One stay of a token: a token that was removed and comes back is another one.
        struct ID: Sendable, Equatable {
            let digest: [UInt8]
            let stay: Int
        }

        /// Its SHA-256.
        let digest: [UInt8]
        let principal: Principal
        /// How many readings there had been when it came.
        fileprivate var stay = 0

        /// What a session keeps of it.
        var id: ID { ID(digest: digest, stay: stay) }
    }

    private struct Loaded {
        var entries: [Entry]
        var at: ContinuousClock.Instant
        var readings = 0
    }

    /// How old what was read may be.
    static let age = Duration.seconds(5)

    private let tokens: [ConsoleToken]
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let loaded: Mutex<Loaded>

    /// The registry of these tokens.
    ///
    /// - Throws: What reading one throws, the first time; ``ConsoleError`` where two hold the same secret.
    init(_ tokens: [ConsoleToken], logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant) throws {
        self.tokens = tokens
        self.logger = logger
        self.now = now
        let entries = try tokens.flatMap(Self.entries)
        if let shared = Self.shared(entries).first {
            throw ConsoleError(
                "console.tokens: '\(shared.one)' and '\(shared.other)' hold the same token: make one for each with "
                    + "`openssl rand -hex 32`"
            )
        }
        loaded = Mutex(Loaded(entries: entries, at: now()))
    }

    /// Whose token it is.
    ///
    /// Digests are compared, each with every one, so that the time tells nothing of a token.
    func entry(for token: some Sequence<UInt8>) -> Entry? {
        let digest = HashFunction.sha256.digest(of: Array(token))
        var found: Entry?
        for entry in current() where ConstantTime.areEqual(entry.digest, digest) { found = entry }
        return found
    }

    /// The valid token that a session began with; nil once it was removed from its file, for good.
    func entry(_ id: Entry.ID) -> Entry? {
        current().first { $0.stay == id.stay && ConstantTime.areEqual($0.digest, id.digest) }
    }

    /// Reads the tokens again where that is due.
    func refresh() { _ = current() }

    private func current() -> [Entry] {
        let time = now()
        return loaded.withLock { loaded in
            if time - loaded.at >= Self.age {
                loaded.readings += 1
                loaded.entries = distinct(tokens.flatMap(read)).map { [loaded] entry in
                    var entry = entry
                    let before = loaded.entries.first { $0.digest == entry.digest && $0.principal == entry.principal }
                    entry.stay = before?.stay ?? loaded.readings
                    return entry
                }
                loaded.at = time
            }
            return loaded.entries
        }
    }

    /// Without the tokens that a rotation has given to two: which of them sends one nobody could tell.
    private func distinct(_ entries: [Entry]) -> [Entry] {
        let shared = Self.shared(entries)
        for shared in shared {
            logger.event(
                .warning,
                .consoleTokenUnreadable,
                "two tokens of the console are the same; it lets nobody in",
                [.principal: .string("\(shared.one), \(shared.other)")]
            )
        }
        return entries.filter { entry in !shared.contains { $0.digest == entry.digest } }
    }

    /// The secrets that two have, and the names of the two.
    private static func shared(_ entries: [Entry]) -> [(digest: [UInt8], one: String, other: String)] {
        var holders: [[UInt8]: Principal] = [:]
        return entries.compactMap { entry in
            guard let first = holders[entry.digest] else {
                holders[entry.digest] = entry.principal
                return nil
            }
            return first == entry.principal ? nil : (entry.digest, first.name, entry.principal.name)
        }
    }

    private func read(_ token: ConsoleToken) -> [Entry] {
        do {
            return try Self.entries(token)
        } catch {
            // A file that is gone lets nobody in.
            logger.event(
                .warning,
                .consoleTokenUnreadable,
                "cannot read a token of the console; it lets nobody in",
                [.principal: .string(token.principal.name)]
            )
            return []
        }
    }

    private static func entries(_ token: ConsoleToken) throws -> [Entry] {
        try token.secrets().filter { !$0.isEmpty }
            .map { Entry(digest: HashFunction.sha256.digest(of: $0), principal: token.principal) }
    }
}
