import ConsoleSupport
import Foundation
import NIOCore

/// Reads Server-Sent Events as they come, by the rules of WHATWG HTML section 9.2.
struct EventReader {
    /// One event.
    struct Event {
        var name: String
        var data: String
        /// The data's member of this name.
        func text(_ member: String) -> String? {
            ((try? JSONSerialization.jsonObject(with: Data(data.utf8))) as? [String: Any])?[member] as? String
        }
    }

    /// What a browser would send as Last-Event-ID.
    private(set) var lastID: String?
    /// The comments so far.
    private(set) var comments = 0
    private var chunks: AsyncThrowingStream<ByteBuffer, any Error>.Iterator
    private var pending: [UInt8] = []

    init(_ response: OpenReply) { chunks = response.body.makeAsyncIterator() }

    /// The next event; nil at the end.
    mutating func next() async throws -> Event? {
        var event = Event(name: "message", data: "")
        while let line = try await line() {
            if line.isEmpty {
                if !event.data.isEmpty { return event }
                event = Event(name: "message", data: "")
                continue
            }
            if line.hasPrefix(":") {
                comments += 1
                continue
            }
            let parts = line.split(separator: ":", maxSplits: 1).map(String.init)
            let value = parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
            switch parts[0] {
            case "event": event.name = value
            case "data": event.data += value
            case "id": lastID = value
            default: break
            }
        }
        return nil
    }

    /// Goes on to the next event of a name.
    mutating func next(_ name: String) async throws -> Event? {
        while let event = try await next() {
            if event.name == name { return event }
        }
        return nil
    }

    /// The ids of the next messages.
    mutating func messages(_ count: Int) async throws -> [String] {
        var ids: [String] = []
        while ids.count < count, let event = try await next() {
            if event.name == "message" { ids.append(event.text("message_id") ?? "?") }
        }
        return ids
    }

    private mutating func line() async throws -> String? {
        while true {
            if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                defer { pending.removeSubrange(...end) }
                return String(decoding: pending[..<end], as: UTF8.self)
            }
            guard let chunk = try await chunks.next() else { return nil }
            pending += chunk.readableBytesView
        }
    }
}
