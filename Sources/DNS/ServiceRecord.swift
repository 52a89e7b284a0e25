/// An SRV record: a host and port of a service (RFC 2782).
package struct ServiceRecord: Sendable, Equatable, Hashable {
    /// Lower ones are tried first.
    package var priority: UInt16
    /// The share of connections among records of one priority.
    package var weight: UInt16
    package var port: UInt16
    /// The host's name in ASCII, lower case, without a final dot.
    package var target: String

    /// The order in which to try entries with one record each (RFC 2782, Usage rules).
    ///
    /// Priorities ascend. Within one, each place is drawn in proportion to the weights left; weight 0 has a very small
    /// chance of coming before others.
    package static func ordered<Entry>(
        _ entries: [Entry],
        by record: (Entry) -> ServiceRecord,
        using generator: inout some RandomNumberGenerator
    ) -> [Entry] {
        var result: [Entry] = []
        result.reserveCapacity(entries.count)
        for priority in Set(entries.map { record($0).priority }).sorted() {
            var left = entries.filter { record($0).priority == priority }
            // Weight 0 first, so that a draw of 0 takes one of them.
            left = left.filter { record($0).weight == 0 } + left.filter { record($0).weight > 0 }
            while !left.isEmpty {
                let total = left.reduce(0) { $0 + Int(record($1).weight) }
                let drawn = Int.random(in: 0...total, using: &generator)
                var sum = 0
                let index = left.firstIndex { entry in
                    sum += Int(record(entry).weight)
                    return sum >= drawn
                }
                result.append(left.remove(at: index ?? 0))
            }
        }
        return result
    }
}

/// The name servers' answer about a service of a domain.
package enum ServiceAnswer: Sendable, Equatable {
    case records([ServiceRecord])
    /// The name does not exist or has no such records.
    case none
    /// The domain declares that it does not offer the service (target `.`).
    case declined
}

extension ServiceAnswer {
    /// The most records kept; each is a place to connect to.
    package static let recordLimit = 64
    /// The longest chain of aliases followed.
    static let aliasLimit = 8

    private struct Record {
        var owner: DNSName
        var type: UInt16
        var alias: DNSName?
        var service: (record: ServiceRecord?, isRoot: Bool)?
    }

    /// Parses the answer to a question for a name's SRV records.
    package init(_ message: ArraySlice<UInt8>, to name: DNSName) throws(DNSError) {
        var reader = DNSReader(message)
        _ = try reader.number()
        let flags = try reader.number()
        // A response to a standard query.
        guard flags & 0x8000 != 0, flags & 0x7800 == 0 else { throw .malformed }
        let questions = try reader.number()
        let answers = try reader.number()
        try reader.skip(4)
        guard flags & 0x0200 == 0 else { throw .truncated }
        switch flags & 0xf {
        case 0: break
        // NXDOMAIN.
        case 3:
            self = .none
            return
        case let code: throw .refused(code: UInt8(code))
        }
        guard questions == 1 else { throw .malformed }
        guard try reader.name() == name else { throw .malformed }
        try reader.skip(4)
        var records: [Record] = []
        for _ in 0..<answers { if let record = try Self.record(&reader) { records.append(record) } }
        self = try Self.services(records, of: name)
    }

    /// Reads the next record; nil if it is neither SRV nor CNAME.
    private static func record(_ reader: inout DNSReader) throws(DNSError) -> Record? {
        var record = Record(owner: try reader.name(), type: try reader.number())
        let `class` = try reader.number()
        try reader.skip(4)
        let length = Int(try reader.number())
        let begin = reader.position
        switch (`class`, record.type) {
        // IN CNAME
        case (1, 5): record.alias = try reader.name()
        // IN SRV
        case (1, 33):
            let (priority, weight, port) = (try reader.number(), try reader.number(), try reader.number())
            let target = try reader.name()
            let service = target.text.map {
                ServiceRecord(priority: priority, weight: weight, port: port, target: $0)
            }
            record.service = (service, target.isRoot)
        default:
            try reader.skip(length)
            return nil
        }
        guard reader.position == begin + length else { throw .malformed }
        return record
    }

    private static func services(_ records: [Record], of name: DNSName) throws(DNSError) -> ServiceAnswer {
        var owner = name
        var steps = 0
        while let alias = records.first(where: { $0.owner == owner && $0.alias != nil })?.alias {
            steps += 1
            guard steps <= aliasLimit else { throw .aliasLoop }
            owner = alias
        }
        let services = records.filter { $0.owner == owner }.compactMap(\.service)
        guard !services.isEmpty else { return .none }
        // Neither port 0 nor a target that is no host name can be connected to.
        let usable = services.compactMap(\.record).filter { $0.port != 0 }
        if usable.isEmpty { return services.contains { $0.isRoot } ? .declined : .none }
        return .records(Array(usable.prefix(recordLimit)))
    }
}
