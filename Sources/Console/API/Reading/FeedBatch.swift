import NIOCore
import Querying
import UpstreamKit
import Vocabulary

/// New messages as events of a stream (WHATWG HTML, section 9.2), rendered once for everybody who follows.
struct FeedBatch: Sendable {
    /// What tells whether somebody wants a message, and where its event stands.
    struct Event: Sendable {
        /// Its bytes within ``FeedBatch/text``.
        var range: Range<Int>
        /// The message's place.
        var place: MessageCursor
        /// The device that sent it.
        var device: DeviceKey
        /// Its category, sender and id, as bytes: they are compared as the database does.
        var category, sender, messageID: [UInt8]
    }

    /// The events, one behind the other.
    private(set) var text = ByteBuffer()
    /// Where they stand.
    private(set) var events: [Event] = []
    /// Where another stream could go on behind this batch; nil where that has not changed.
    var position: TailPosition?
    /// What is missing before it.
    var gap: MessageTail.Gap?

    /// Whether there is nothing to tell.
    var isEmpty: Bool { events.isEmpty && position == nil && gap == nil }

    /// Appends a message.
    mutating func append(_ page: MessagePage, _ row: Int, _ lines: inout MessageLines) {
        guard let place = page.cursor(row), let device = page.deviceKey(row) else { return }
        func bytes(_ column: MessagePage.Column) -> [UInt8] { page.withBytes(row, column) { [UInt8]($0) } }
        let start = text.writerIndex
        Self.append(page, row, &lines, to: &text)
        events.append(
            Event(
                range: start..<text.writerIndex,
                place: place,
                device: device,
                category: bytes(.category),
                sender: bytes(.senderID),
                messageID: bytes(.messageID)
            )
        )
    }

    /// The events that a filter wants.
    ///
    /// - Parameters:
    ///   - filter: Whose events.
    ///   - isNew: Whether a message was not sent before.
    /// - Returns: Their text; empty where there are none.
    func text(_ filter: FeedFilter, isNew: (MessageKey) -> Bool) -> ByteBuffer {
        var chosen = ByteBuffer()
        var isAll = true
        for event in events {
            guard filter.wants(event), isNew(event.place.messageKey) else {
                isAll = false
                continue
            }
            if let slice = text.getSlice(at: event.range.lowerBound, length: event.range.count) {
                var slice = slice
                chosen.writeBuffer(&slice)
            }
        }
        // Shared by all who want everything.
        return isAll ? text : chosen
    }

    /// Appends a message's event.
    static func append(_ page: MessagePage, _ row: Int, _ lines: inout MessageLines, to text: inout ByteBuffer) {
        text.writeString("data: ")
        lines.appendObject(of: page, row)
        text.writeBytes(lines.take())
        text.writeString("\n\n")
    }

    /// The event that names a position.
    static func event(_ position: TailPosition) -> String { "event: position\nid: \(position)\ndata: {}\n\n" }

    /// The event that names what is missing.
    static func event(_ gap: MessageTail.Gap) -> String {
        let (why, span) =
            switch gap {
            case .dropped(let span): ("retention dropped them before they were read", span)
            case .unproven(let span): ("too many arrived to look for late commits among them", span)
            }
        var json = JSONWriter()
        json.beginObject()
        json.member("from", span.lowerBound)
        json.member("to", span.upperBound)
        json.member("reason", why)
        json.endObject()
        return "event: gap\ndata: \(String(decoding: json.finish(), as: UTF8.self))\n\n"
    }
}

/// The part of a filter that a stream checks itself, so that all who follow share one query.
struct FeedFilter: Sendable {
    private let categories: Set<[UInt8]>
    private let sender, messageID: [UInt8]?
    private let device: DeviceKey?
    private let since, until: Timestamp?

    init(_ filter: MessageFilter) {
        categories = Set(filter.categories.map { Array($0.utf8) })
        sender = filter.senderID.map { Array($0.utf8) }
        messageID = filter.messageID.map { Array($0.utf8) }
        (device, since, until) = (filter.deviceKey, filter.since, filter.until)
    }

    /// Whether a message is one of them.
    func wants(_ event: FeedBatch.Event) -> Bool {
        if !categories.isEmpty, !categories.contains(event.category) { return false }
        if let sender, sender != event.sender { return false }
        if let messageID, messageID != event.messageID { return false }
        if let device, device != event.device { return false }
        if let since, event.place.receivedAt < since { return false }
        if let until, event.place.receivedAt >= until { return false }
        return true
    }
}
