/// How many messages a handler is given in one call, where it takes several.
///
/// More as long as calls are short and go well together. Where messages disturb each other (locks taken in another order,
/// a temporary table made twice, a call over its time), each goes alone for a while: longer each time.
package struct BatchSize: Sendable, Equatable {
    /// A longer call would make the messages behind it wait, and cost more if it fails.
    package static let longest = Duration.milliseconds(100)
    /// About how many bytes of messages a call takes; the one that exceeds it is the last.
    static let mostBytes = 1 << 20
    /// The most calls until several messages are tried together again.
    static let mostPatience = 256

    /// The size of the next call.
    package private(set) var size: Int
    private let limit: Int
    private let keepsShort: Bool
    /// What a call should not exceed.
    var longest: Duration
    /// How many calls must go well before the size grows again.
    private var pause = 0
    private var patience = 0

    /// A size of at most `limit`; `keepsShort` if calls should be short.
    package init(upTo limit: Int, keepsShort: Bool = true, longest: Duration = Self.longest) {
        (self.limit, self.keepsShort, self.longest) = (limit, keepsShort, longest)
        size = keepsShort ? min(limit, 8) : limit
    }

    /// Learns from a call; `areTogether` unless its messages had to be taken apart though none of them was at fault.
    package mutating func called(_ count: Int, took: Duration, areTogether: Bool) {
        guard areTogether else {
            size = 1
            patience = min(max(8, patience * 2), Self.mostPatience)
            pause = patience
            return
        }
        if keepsShort, took > longest {
            size = max(1, min(size, count) / 2)
        } else if pause > 0 {
            pause -= 1
        } else if count >= size, !keepsShort || took < longest / 2, size < limit {
            size = min(limit, size * 2)
            patience /= 2
        }
    }
}
