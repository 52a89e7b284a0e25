import Vocabulary

/// The values of the label `category`: the configured names and prefixes, and `other` for the rest.
///
/// A category is counted under its name, else under the longest prefix, whose label is its text: `com.example.*`.
/// Devices choose categories freely, so an open label would let any app fill our memory and Prometheus's.
package struct CategoryLabels: Sendable {
    /// The label's values; index 0 is `other`.
    package let names: [String]
    /// Indices by the hash of a configured name, so that chosen collisions can't lengthen a list.
    private let indices: [UInt64: [Int]]
    private let bytes: [[UInt8]]
    /// The prefixes, the longest first, with their labels' indices.
    private let prefixes: [(bytes: [UInt8], index: Int)]

    package static let other = 0

    package init(_ configured: [String]) {
        var names = ["other"]
        var indices: [UInt64: [Int]] = [:]
        for name in configured where name != "*" && !names.contains(name) {
            let hash = FNV1a.hash(name)
            indices[hash, default: []].append(names.count)
            names.append(name)
        }
        self.names = names
        self.indices = indices
        bytes = names.map { Array($0.utf8) }
        prefixes = names.indices.filter { names[$0].hasSuffix(".*") }.map { (Array(names[$0].utf8.dropLast()), $0) }
            .sorted { $0.bytes.count > $1.bytes.count }
    }

    /// The label's index for a message's category, compared by bytes of UTF-8.
    package func index(of category: UnsafeBufferPointer<UInt8>) -> Int {
        guard !indices.isEmpty else { return Self.other }
        if let own = indices[FNV1a.hash(category)]?.first(where: { bytes[$0].elementsEqual(category) }) { return own }
        return prefixes.first { category.starts(with: $0.bytes) }?.index ?? Self.other
    }
}
