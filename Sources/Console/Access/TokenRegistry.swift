import Digests
import Logging
import Synchronization
import Telemetry

/// The valid tokens.
///
/// Kept as digests, and reread from their files every few seconds while requests come: added tokens work, and removed
/// ones stop working, without a restart.
final class TokenRegistry: Sendable {
    struct Entry: Sendable {
        /// A token's period of validity: a token that was removed and returns gets a new one.
        struct ID: Sendable, Equatable {
            let digest: [UInt8]
            let stay: Int
        }

        /// Its SHA-256.
        let digest: [UInt8]
        let principal: Principal
        /// The number of readings before it appeared.
        fileprivate var stay = 0

        /// What a session keeps of the token.
        var id: ID { ID(digest: digest, stay: stay) }
    }

    private struct Loaded {
        var entries: [Entry]
        var at: ContinuousClock.Instant
        var readings = 0
    }

    /// How long a reading counts as current.
    static let age = Duration.seconds(5)

    private let tokens: [ConsoleToken]
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let loaded: Mutex<Loaded>

    /// Reads the tokens.
    ///
    /// - Throws: What reading one throws, the first time; ``ConsoleError`` if two hold the same secret.
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

    /// The entry of a token.
    ///
    /// The digest is compared with every entry's, so that the time reveals nothing.
    func entry(for token: some Sequence<UInt8>) -> Entry? {
        let digest = HashFunction.sha256.digest(of: Array(token))
        var found: Entry?
        for entry in current() where ConstantTime.areEqual(entry.digest, digest) { found = entry }
        return found
    }

    /// The token that a session began with, if still valid; nil for good once it was removed from its file.
    func entry(_ id: Entry.ID) -> Entry? {
        current().first { $0.stay == id.stay && ConstantTime.areEqual($0.digest, id.digest) }
    }

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

    /// Without tokens that a rotation has given to two principals: their senders could not be told apart.
    private func distinct(_ entries: [Entry]) -> [Entry] {
        let shared = Self.shared(entries)
        for shared in shared {
            warn("two tokens of the console are the same; it lets nobody in", "\(shared.one), \(shared.other)")
        }
        return entries.filter { entry in !shared.contains { $0.digest == entry.digest } }
    }

    /// Secrets held by two principals, with their names.
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
            // A missing file lets nobody in.
            warn("cannot read a token of the console; it lets nobody in", token.principal.name)
            return []
        }
    }

    private func warn(_ message: StaticString, _ name: String) {
        logger.event(.warning, .consoleTokenUnreadable, message, [.principal: .string(name)])
    }

    private static func entries(_ token: ConsoleToken) throws -> [Entry] {
        try token.secrets().filter { !$0.isEmpty }
            .map { Entry(digest: HashFunction.sha256.digest(of: $0), principal: token.principal) }
    }
}

package struct ConsoleToken: Sendable {
    package var principal: Principal
    /// Reads the secret values; during a rotation two are valid at once.
    ///
    /// Called repeatedly, so that a rotated file takes effect without a restart.
    package var secrets: @Sendable () throws -> [[UInt8]]

    package init(_ principal: Principal, secrets: @escaping @Sendable () throws -> [[UInt8]]) {
        self.principal = principal
        self.secrets = secrets
    }
}
