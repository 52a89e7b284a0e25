import Digests
import Synchronization
import Vocabulary

/// Sessions, in memory: bounded, lost with the process.
final class SessionStore: Sendable {
    /// What a session was started with.
    enum Source: Sendable {
        /// A token: the session ends when the token is removed, and stays ended when it returns.
        case token(TokenRegistry.Entry.ID)
        /// A one-time link.
        case link(Principal)

        /// Whether both are of the same token, or of the same link's principal.
        func isOfSame(as other: Source) -> Bool {
            switch (self, other) {
            case (.token(let own), .token(let other)): own == other
            case (.link(let own), .link(let principal)): own.name.utf8.elementsEqual(principal.name.utf8)
            case (.token, .link), (.link, .token): false
            }
        }
    }

    private struct Session {
        var source: Source
        var expires: ContinuousClock.Instant
    }

    private struct State {
        var sessions: [[UInt8]: Session] = [:]
        var links: [[UInt8]: Session] = [:]
    }

    /// The most sessions; beyond it the one that expires first is ended.
    static let limit = 1_000
    /// The most sessions per token or person; beyond it their oldest is ended, and nobody else's.
    static let limitOfOne = 50
    /// The most open one-time links.
    static let linkLimit = 16

    private let lifetime: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    init(lifetime: Duration, now: @escaping @Sendable () -> ContinuousClock.Instant) {
        self.lifetime = lifetime
        self.now = now
    }

    /// Begins a session, and ends the previous one of the same browser.
    ///
    /// The id is always new: one that was known before signing in is worthless afterwards.
    func begin(_ source: Source, replacing previous: String?) -> String {
        let id = SecretText()
        let time = now()
        let old = previous.map(SecretText.digest)
        state.withLock { state in
            if let old { state.sessions[old] = nil }
            Self.trim(&state.sessions, to: Self.limitOfOne - 1, time) { $0.isOfSame(as: source) }
            Self.trim(&state.sessions, to: Self.limit - 1, time)
            state.sessions[id.digest] = Session(source: source, expires: time + lifetime)
        }
        return id.text
    }

    /// What a session was started with; nil if the id is unknown or has expired.
    func source(of id: String) -> Source? {
        let (digest, time) = (SecretText.digest(of: id), now())
        return state.withLock { state in
            guard let session = state.sessions[digest] else { return nil }
            guard time < session.expires else {
                state.sessions[digest] = nil
                return nil
            }
            return session.source
        }
    }

    func end(_ id: String) {
        let digest = SecretText.digest(of: id)
        state.withLock { $0.sessions[digest] = nil }
    }

    /// Makes a secret that signs in `principal` once within `lifetime`.
    func makeLink(for principal: Principal, lifetime: Duration) -> String {
        let secret = SecretText()
        let time = now()
        state.withLock { state in
            Self.trim(&state.links, to: Self.linkLimit - 1, time)
            state.links[secret.digest] = Session(source: .link(principal), expires: time + lifetime)
        }
        return secret.text
    }

    /// Consumes a one-time secret; nil if it is unknown, used or expired.
    func useLink(_ secret: String) -> Source? {
        let (digest, time) = (SecretText.digest(of: secret), now())
        return state.withLock { state in
            guard let link = state.links.removeValue(forKey: digest), time < link.expires else { return nil }
            return link.source
        }
    }

    var count: Int { state.withLock { $0.sessions.count } }

    /// Ends the sessions of a kind that expire first, until at most `limit` are left.
    private static func trim(
        _ sessions: inout [[UInt8]: Session],
        to limit: Int,
        _ time: ContinuousClock.Instant,
        where isCounted: (Source) -> Bool = { _ in true }
    ) {
        var counted = sessions.filter { isCounted($0.value.source) }
        guard counted.count > limit else { return }
        for (digest, session) in counted where time >= session.expires {
            sessions[digest] = nil
            counted[digest] = nil
        }
        while counted.count > limit, let first = counted.min(by: { $0.value.expires < $1.value.expires }) {
            sessions[first.key] = nil
            counted[first.key] = nil
        }
    }
}

/// A secret made by the console: 256 random bits in hexadecimal.
struct SecretText: Sendable {
    /// What the holder receives.
    let text: String
    /// What is stored: the time of a lookup reveals nothing about the text.
    let digest: [UInt8]

    init() {
        // The system's generator is getrandom(2).
        text = Hex.encode(RandomSource.system.bytes(words: 4))
        digest = Self.digest(of: text)
    }

    static func digest(of text: String) -> [UInt8] { HashFunction.sha256.digest(of: Array(text.utf8)) }
}
