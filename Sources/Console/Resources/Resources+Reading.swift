import Foundation
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// What a handler may have said about a message.
protocol HandlersWords: ShownResource {
    var messageKey: MessageKey { get }
    var receivedAt: Timestamp { get }
    var hasWords: Bool { get }
}

extension DeadLetter: HandlersWords {
    var hasWords: Bool { !error.isEmpty }
}

extension WaitingDelivery: HandlersWords {
    var hasWords: Bool { error != nil }
}

extension Array where Element: HandlersWords {
    /// The rows as a reader may see them: without their messages' tokens.
    func shown(to sight: Sight, _ connection: PostgresConnection) async throws(PostgresError) -> [Element] {
        let said = sight.payloads ? filter(\.hasWords) : []
        let tokens = try await TokensOfMessages(of: said.map { ($0.messageKey, $0.receivedAt) }, connection)
        return map { $0.shown(to: sight, knowing: tokens[$0.messageKey]) }
    }
}

extension MessageDetail {
    /// The message's tokens: its device's, and the one that a receipt holds.
    var tokens: [String] {
        guard let message = stored?.message else { return [] }
        let data = message.data.flatMap { try? JSONSerialization.jsonObject(with: Data($0)) } as? [String: Any]
        return [message.registrationToken.rawValue, data?[TokenMask.member] as? String]
            .compactMap(\.self)
    }

    /// Everything about the message as a reader may see it, with its conflicts' names.
    func shown(to sight: Sight, by aliases: Aliases) -> MessageDetail {
        var detail = shown(to: sight, knowing: tokens)
        detail.conflicts = detail.conflicts.map { aliases.named($0) }
        return detail
    }
}

/// The groups of a frozen set, stored as JSON.
struct JobGroups: ShownValue {
    static var schema: ValueSchema { ValueSchema("array", items: #"{"type":"object"}"#) }

    private let json: [UInt8]

    init(_ json: [UInt8]) { self.json = json }

    func write(to json: inout JSONWriter) { json.json(self.json) }

    private struct Group: Codable {
        var handler: String
        var errorGroup: String
        var count: Int

        enum CodingKeys: String, CodingKey {
            case handler
            case errorGroup = "error_group"
            case count
        }
    }

    /// The groups as a reader may see them; none if they can't be read.
    static func shown(_ groups: [UInt8], to sight: Sight) -> [UInt8] {
        guard var known = try? JSONDecoder().decode([Group].self, from: Data(groups)) else { return Array("[]".utf8) }
        for index in known.indices { known[index].errorGroup = sight.group(known[index].errorGroup) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(known)).map(Array.init) ?? Array("[]".utf8)
    }
}
