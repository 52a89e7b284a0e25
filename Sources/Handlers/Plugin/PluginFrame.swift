import Dispatcher
import UpstreamKit
import Vocabulary

/// The protocol with `upstream-plugin-host`, specified in `Sources/PluginHost/host.h`: one reply to each request, both
/// as frames of a length and as many bytes.
enum PluginFrame {
    /// The protocol's version; the host refuses any other.
    static let version: UInt8 = 2

    static let messageLimit = 1_000

    /// The most bytes of messages in one call, except for a single message; the host accepts twice as many.
    static let byteLimit = 16 << 20

    /// The most bytes of a reply: every message with a full reason.
    static let replyLimit = 2 << 20

    private static let open: UInt8 = 1
    private static let handle: UInt8 = 2

    /// Asks the host to load and open the library, with a limit of address space in bytes (0 for none).
    static func opening(timeout: Duration, memory: Int, configuration: String) -> [UInt8] {
        framed { bytes in
            bytes.append(open)
            bytes.append(version)
            append(milliseconds(timeout), to: &bytes)
            append(UInt64(memory), to: &bytes)
            append(text: configuration.utf8, to: &bytes)
        }
    }

    /// One message's part of a request.
    static func message(_ message: UpstreamMessage, _ context: HandlerContext) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(640 + (message.data?.count ?? 0) + (message.extra?.count ?? 0))
        append(UInt64(bitPattern: message.receivedAtMicroseconds), to: &bytes)
        append(UInt32(clamping: context.attempt), to: &bytes)
        append(text: message.messageKey.description.utf8, to: &bytes)
        append(text: message.messageID.utf8, to: &bytes)
        append(text: message.senderID.utf8, to: &bytes)
        append(text: message.category.utf8, to: &bytes)
        append(text: message.registrationToken.rawValue.utf8, to: &bytes)
        append(text: message.deviceKey.description.utf8, to: &bytes)
        append(text: message.data, to: &bytes)
        append(text: message.extra, to: &bytes)
        append(text: message.messageType?.utf8, to: &bytes)
        append(text: context.replayID?.utf8, to: &bytes)
        append(text: context.traceparent?.utf8, to: &bytes)
        append(text: context.tracestate?.utf8, to: &bytes)
        return bytes
    }

    /// A request with messages encoded by ``message(_:_:)``.
    static func handling(_ messages: [[UInt8]], timeout: Duration) -> [UInt8] {
        framed(capacity: messages.reduce(16) { $0 + $1.count }) { bytes in
            bytes.append(handle)
            append(milliseconds(timeout), to: &bytes)
            append(UInt32(messages.count), to: &bytes)
            for message in messages { bytes += message }
        }
    }

    private static func framed(capacity: Int = 256, _ body: (inout [UInt8]) -> Void) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(capacity + 4)
        append(UInt32(0), to: &bytes)
        body(&bytes)
        let length = UInt32(bytes.count - 4)
        for index in 0..<4 { bytes[index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        return bytes
    }

    private static func milliseconds(_ duration: Duration) -> UInt32 { UInt32(clamping: max(1, duration.milliseconds)) }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    private static func append(text: (some Collection<UInt8>)?, to bytes: inout [UInt8]) {
        guard let text else { return append(UInt32.max, to: &bytes) }
        append(UInt32(text.count), to: &bytes)
        bytes.append(contentsOf: text)
        bytes.append(0)
    }

    enum End: UInt8, Sendable, Hashable {
        case returned = 0
        /// It returned something else: the plugin can't work now.
        case unavailable = 1
        /// The plugin's process ended during the call.
        case crashed = 2
        /// It took too long, and was killed.
        case timedOut = 3
        /// The library could not be loaded or opened: nothing was called.
        case notLoaded = 4
    }

    struct Reply: Sendable, Hashable {
        var end: End
        /// The reason in words; empty if the function returned.
        var detail: String
        /// The plugin's outcome for each message, nil if it gave none; empty after opening.
        var outcomes: [Outcome?]
    }

    enum Outcome: Sendable, Hashable {
        case said(HandlerOutcome)
        case unknown
    }

    /// Parses the host's reply to an opening; nil for bytes of any other shape.
    static func opened(_ bytes: [UInt8]) -> Reply? {
        var reader = ByteReader(bytes)
        guard let (end, detail) = head(open, &reader), reader.isAtEnd else { return nil }
        return Reply(end: end, detail: detail, outcomes: [])
    }

    /// Parses the host's reply about this many messages; nil for bytes of any other shape.
    static func handled(_ bytes: [UInt8], count: Int) -> Reply? {
        var reader = ByteReader(bytes)
        guard let (end, detail) = head(handle, &reader), reader.number(UInt32.self) == UInt32(count) else { return nil }
        var outcomes: [Outcome?] = []
        outcomes.reserveCapacity(count)
        for _ in 0..<count {
            guard let kind = reader.number(UInt8.self), let after = reader.number(UInt64.self),
                let reason = reader.text()
            else { return nil }
            outcomes.append(outcome(kind, after, reason))
        }
        return reader.isAtEnd ? Reply(end: end, detail: detail, outcomes: outcomes) : nil
    }

    private static func head(_ kind: UInt8, _ reader: inout ByteReader) -> (End, String)? {
        guard reader.number(UInt8.self) == kind, let end = reader.number(UInt8.self).flatMap(End.init),
            let detail = reader.text()
        else { return nil }
        return (end, detail)
    }

    private static func outcome(_ kind: UInt8, _ after: UInt64, _ reason: String) -> Outcome? {
        switch kind {
        case 0: return nil
        case 1: return .said(.done)
        case 2:
            // The limit of exec's answers.
            let wait = Duration.milliseconds(Int64(clamping: min(after, 366 * 86_400_000)))
            return .said(.retry(after: after == 0 ? nil : wait, reason: reason.isEmpty ? nil : reason))
        case 3: return .said(.reject(reason: reason.isEmpty ? "rejected without a reason" : reason))
        default: return .unknown
        }
    }
}

/// Reads numbers and texts with bounds checks.
private struct ByteReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ type: Number.Type) -> Number? {
        let size = Number.bitWidth / 8
        guard rest.count >= size else { return nil }
        defer { rest = rest.dropFirst(size) }
        return rest.prefix(size).reversed().reduce(0) { $0 << 8 | Number($1) }
    }

    mutating func text() -> String? {
        guard let count = number(UInt32.self), Int(count) <= rest.count else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return String(decoding: rest.prefix(Int(count)), as: UTF8.self)
    }
}

/// The end of a call's meaning for one of its messages.
enum PluginVerdict: Sendable, Hashable {
    case settled(HandlerVerdict)
    /// The culprit is unknown: the message is repeated in its own call.
    case again

    /// Judges the host's reply about a message; the plugin's outcome counts however the call ended.
    static func of(_ outcome: PluginFrame.Outcome?, _ reply: PluginFrame.Reply, isAlone: Bool) -> PluginVerdict {
        switch outcome {
        case .said(let outcome): return .settled(HandlerVerdict(outcome))
        case .unknown: return .settled(.retry(after: nil, unknown))
        case nil: break
        }
        switch reply.end {
        case .returned: return .settled(.retry(after: nil, unset))
        case .unavailable: return .settled(.unavailable(after: nil, unable))
        case .notLoaded:
            return .settled(
                .unavailable(after: nil, HandlerFailure(group: "plugin can not be loaded", detail: reply.detail))
            )
        case .crashed, .timedOut: guard isAlone else { return .again }
        }
        let failure = HandlerFailure(
            group: reply.end == .crashed ? "plugin ended before it answered" : "plugin gave no answer in time",
            detail: "the plugin's process ended: \(reply.detail)"
        )
        // A hang may be the plugin's fault; a crash is this message's.
        return .settled(reply.end == .crashed ? .retry(after: nil, failure) : .down(after: nil, failure))
    }

    private static let unset = HandlerFailure(
        group: "plugin set no outcome",
        detail: "upstream_plugin_handle returned 0 and set no outcome for this message"
    )

    private static let unknown = HandlerFailure(
        group: "plugin set an unknown outcome",
        detail: "the outcome's kind is none of UPSTREAM_DONE, UPSTREAM_RETRY and UPSTREAM_REJECT"
    )

    private static let unable = HandlerFailure(
        group: "plugin says it can not work now",
        detail: "upstream_plugin_handle did not return 0"
    )
}
