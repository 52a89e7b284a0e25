import Vocabulary

/// The values of the label `category`: the configured names, and `other` for the rest.
///
/// Devices choose categories freely, so an open label would let any app grow our memory and Prometheus's.
package struct CategoryLabels: Sendable {
    /// The label's values; index 0 is `other`.
    package let names: [String]
    /// From a hash of a name's bytes to the indices that share it.
    ///
    /// Only configured names are in it, so chosen collisions can't lengthen a list.
    private let indices: [UInt64: [Int]]
    private let bytes: [[UInt8]]

    /// The index of `other`.
    package static let other = 0

    /// The labels for the configured names; `*` and repetitions are left out.
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
    }

    /// The label's index for a category as it stands in a message: UTF-8, compared as bytes.
    package func index(of category: UnsafeBufferPointer<UInt8>) -> Int {
        guard !indices.isEmpty, let candidates = indices[FNV1a.hash(category)] else { return Self.other }
        return candidates.first { bytes[$0].elementsEqual(category) } ?? Self.other
    }
}
