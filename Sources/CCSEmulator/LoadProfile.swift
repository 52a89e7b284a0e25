/// The messages that the emulator generates.
package struct LoadProfile: Sendable {
    package struct Category: Sendable, Equatable {
        /// The application's package name; printable ASCII without quotes or backslashes.
        package var name: String
        /// The weight relative to the others; at least 1.
        package var weight: Int

        package init(name: String, weight: Int = 1) {
            self.name = name
            self.weight = weight
        }
    }

    /// The number of distinct messages for each sender; nil for unlimited, 0 for none.
    package var count: Int?
    /// Messages a second for each sender; nil for as fast as windows and sockets allow.
    package var rate: Double?
    /// New messages start once a sender has this many connections bound at the same time.
    package var connections = 1
    package var devices = 1000
    package var categories = [Category(name: "com.example.app")]
    /// The size of a message's JSON text in bytes; the fields set a minimum.
    package var size = 400...400
    package var receiptShare = 0.0
    package var forms = EnvelopeForm.allCases
    /// The same seed gives the same messages byte for byte.
    package var seed: UInt64 = 1
    /// The prefix of message ids: 1...64 letters, digits, dots, underscores and hyphens; nil for one from the seed.
    package var idPrefix: String?
    /// Whether ids come in random order, as from many devices.
    ///
    /// Ascending ids go to a b-tree's right edge, which is far cheaper than what a database meets in the field.
    package var idsAreScattered = false

    /// A profile that generates nothing until ``count`` is set.
    package init(count: Int? = 0) { self.count = count }

    /// The profile's errors, one sentence each; empty for a valid one.
    package var problems: [String] {
        var result: [String] = []
        if let count, count < 0 || count > 999_999_999_999 { result.append("count must be 0...999999999999") }
        if let rate, !(rate > 0 && rate <= 10_000_000) { result.append("rate must be above 0, and 10000000 at most") }
        if !(1...99_999_999).contains(devices) { result.append("devices must be 1...99999999") }
        if connections < 1 { result.append("connections must be 1 or more") }
        if categories.isEmpty { result.append("at least one category is needed") }
        for category in categories {
            if !Self.isPlain(category.name, limit: 255) {
                result.append("a category's name must be 1...255 letters, digits, dots, underscores or hyphens")
            }
            if !(1...1_000_000).contains(category.weight) { result.append("a category's weight must be 1...1000000") }
        }
        if size.lowerBound < 0 || size.upperBound > 1 << 20 { result.append("size must be 0...1048576 bytes") }
        if !(0...1).contains(receiptShare) { result.append("receipts must be a share between 0 and 1") }
        if forms.isEmpty { result.append("at least one envelope form is needed") }
        if !Self.isPlain(effectivePrefix, limit: 64) {
            result.append("the id prefix must be 1...64 letters, digits, dots, underscores or hyphens")
        }
        return result
    }

    package var effectivePrefix: String {
        if let idPrefix { return idPrefix }
        let text = String(SplitMix.mix(seed), radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    private static func isPlain(_ name: String, limit: Int) -> Bool {
        (1...limit).contains(name.utf8.count)
            && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) || "._-".contains($0) }
    }
}
