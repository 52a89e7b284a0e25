/// A strict reader of RFC 4180; an empty field without quotes is nil.
package enum CSV {
    /// The records; nil where the text breaks the rules.
    package static func read(_ bytes: [UInt8]) -> [[String?]]? {
        var records: [[String?]] = []
        var record: [String?] = []
        var index = 0
        while index < bytes.count {
            var field: [UInt8] = []
            let isQuoted = bytes[index] == 0x22
            if isQuoted {
                index += 1
                while true {
                    guard index < bytes.count else { return nil }
                    if bytes[index] == 0x22 {
                        guard index + 1 < bytes.count, bytes[index + 1] == 0x22 else { break }
                        index += 1
                    }
                    field.append(bytes[index])
                    index += 1
                }
                index += 1
            } else {
                while index < bytes.count, ![0x2C, 0x0D, 0x0A].contains(bytes[index]) {
                    guard bytes[index] != 0x22 else { return nil }
                    field.append(bytes[index])
                    index += 1
                }
            }
            record.append(field.isEmpty && !isQuoted ? nil : String(decoding: field, as: UTF8.self))
            guard index < bytes.count else { return nil }
            if bytes[index] == 0x2C {
                index += 1
            } else {
                guard bytes[index...].starts(with: [0x0D, 0x0A]) else { return nil }
                index += 2
                records.append(record)
                record = []
            }
        }
        return record.isEmpty ? records : nil
    }
}
