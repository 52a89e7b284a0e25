import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// The filter of the messages' page, as typed and as parsed.
struct MessageQuery {
    var categories: [String]
    var sender: String?
    var device: String?
    var messageID: String?
    var since: String?
    var until: String?
    var clauses: [String]
    private(set) var mistakes: [String: String] = [:]
    /// The fields that could be parsed.
    private(set) var filter = MessageFilter()

    /// Reads the address's parameters, which are those of the API.
    ///
    /// - Parameters:
    ///   - query: The parameters.
    ///   - now: The moment from which ages count back.
    ///   - showsPayloads: If false, `where` is refused: the answers would reveal payloads.
    ///   - principal: Who asks; without the right `reveal`, a clause on a registration token is refused.
    init(_ query: PageQuery, now: Timestamp, showsPayloads: Bool, _ principal: Principal) {
        categories = query.all("category")
        sender = query["sender"]
        device = query["device"]
        messageID = query["message_id"]
        since = query["since"]
        until = query["until"]
        clauses = query.all("where")
        filter.seesTokens = principal.may(.reveal)
        filter.categories = categories
        filter.senderID = sender
        filter.messageID = messageID
        filter.since = time("since", since, now)
        filter.until = time("until", until, now)
        if let device {
            filter.deviceKey = DeviceKey(device)
            if filter.deviceKey == nil { mistakes["device"] = "a device_key has 8-4-4-4-12 hex digits" }
        }
        guard showsPayloads || clauses.isEmpty else {
            mistakes["where"] = "payloads are hidden here, so nothing looks into them (console.payloads)"
            return
        }
        for clause in clauses {
            do throws(FilterError) {
                filter.clauses.append(try WhereClause(parsing: clause))
            } catch {
                mistakes["where"] = error.description
            }
        }
        if !filter.seesTokens, filter.clauses.contains(where: \.isOnToken) {
            mistakes["where"] = "\(TokenMask.member) is a registration token: that takes the right 'reveal'"
        }
    }

    private mutating func time(_ name: String, _ text: String?, _ now: Timestamp) -> Timestamp? {
        guard let text else { return nil }
        do throws(FilterError) {
            return try TimeExpression.parse(text, now: now)
        } catch {
            mistakes[name] = error.message
            return nil
        }
    }

    /// Whether no field is filled in.
    var isEmpty: Bool {
        categories.isEmpty && sender == nil && device == nil && messageID == nil && since == nil && until == nil
            && clauses.isEmpty
    }

    /// Adds the filter's parameters to an address.
    func address(_ base: PageAddress) -> PageAddress {
        base.query("category", categories).query("sender", sender).query("device", device)
            .query("message_id", messageID).query("since", since).query("until", until).query("where", clauses)
    }
}
