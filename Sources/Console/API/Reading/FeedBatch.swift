import NIOCore
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// New messages as events of a stream (WHATWG HTML, section 9.2), rendered once for all followers.
struct FeedBatch: Sendable {
    struct Event: Sendable {
        var range: Range<Int>
        var place: MessageCursor
        var device: DeviceKey
        var category, sender, messageID: [UInt8]
    }

    private(set) var text = ByteBuffer()
    private(set) var events: [Event] = []
    /// Where another stream could continue after this batch; nil if unchanged.
    var position: TailPosition?
    var gap: MessageTail.Gap?
    /// Whether the database could not be read: nothing newer is shown until it can.
    var isStale = false

    var isEmpty: Bool { events.isEmpty && position == nil && gap == nil && !isStale }

    mutating func append(_ page: MessagePage, _ row: Int, _ lines: inout MessageLines) {
        guard let message = page[row] else { return }
        func bytes(_ column: MessageColumn) -> [UInt8] { message.withBytes(column) { [UInt8]($0) } }
        let start = text.writerIndex
        Self.append(page, row, &lines, to: &text)
        events.append(
            Event(
                range: start..<text.writerIndex,
                place: message.cursor,
                device: message.deviceKey,
                category: bytes(.category),
                sender: bytes(.senderID),
                messageID: bytes(.messageID)
            )
        )
    }

    /// The events that a filter selects.
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
        // Shared by all who take everything.
        return isAll ? text : chosen
    }

    static func append(_ page: MessagePage, _ row: Int, _ lines: inout MessageLines, to text: inout ByteBuffer) {
        text.writeString("data: ")
        lines.appendObject(of: page, row)
        text.writeBytes(lines.take())
        text.writeString("\n\n")
    }

    static func event(_ position: TailPosition) -> String { "event: position\nid: \(position)\ndata: {}\n\n" }

    static let stale = "event: stale\ndata: {\"detail\":\"the database does not answer.\"}\n\n"

    static func event(_ gap: MessageTail.Gap) -> String {
        switch gap {
        case .dropped(let span): event(gap: span, "retention dropped them before they were read")
        case .unproven(let span): event(gap: span, "too many arrived to look for late commits among them")
        }
    }

    static func event(gap span: Range<Timestamp>, _ why: String) -> String {
        let data: JSONObject = ["from": span.lowerBound, "to": span.upperBound, "reason": why]
        return "event: gap\ndata: \(String(decoding: data.json(), as: UTF8.self))\n\n"
    }
}

/// The part of a filter that a stream checks itself, so that all followers share one query.
struct FeedFilter: Sendable {
    private let filter: MessageFilter
    private let categories: Set<[UInt8]>

    init(_ filter: MessageFilter) {
        (self.filter, categories) = (filter, Set(filter.categories.map { Array($0.utf8) }))
    }

    func wants(_ event: FeedBatch.Event) -> Bool {
        if !categories.isEmpty, !categories.contains(event.category) { return false }
        if let sender = filter.senderID, !event.sender.elementsEqual(sender.utf8) { return false }
        if let id = filter.messageID, !event.messageID.elementsEqual(id.utf8) { return false }
        if let key = filter.messageKey, key != event.place.messageKey { return false }
        if let device = filter.deviceKey, device != event.device { return false }
        if let since = filter.since, event.place.receivedAt < since { return false }
        if let until = filter.until, event.place.receivedAt >= until { return false }
        return true
    }
}
