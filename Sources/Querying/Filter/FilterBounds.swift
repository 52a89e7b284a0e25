/// How much may be asked for at once, in a request's query or body and on a command line.
///
/// Each condition is planned before the statement's time limit counts much: their number bounds what that costs.
package enum FilterBounds {
    /// The longest value, in bytes of UTF-8; a message id takes 4,096.
    static let bytes = 4_096
    /// The most values of what may be repeated: of one name, and of all such names together.
    static let values = 100

    /// What is too much in what somebody selects by.
    ///
    /// - Parameter given: The values by their names.
    /// - Returns: A value that is too long, or too many of them, for people; nil where all is within bounds.
    package static func excess(in given: [String: [String]]) -> String? {
        let given = given.sorted { $0.key < $1.key }
        if let (name, _) = given.first(where: { $0.value.contains { $0.utf8.count > bytes } }) {
            return "'\(name)' is longer than \(bytes) bytes"
        }
        let repeated = given.filter { $0.value.count > 1 }
        if let (name, texts) = repeated.first(where: { $0.value.count > values }) {
            return "'\(name)' is given \(texts.count) times; at most \(values) are taken"
        }
        let sum = repeated.map(\.value.count).reduce(0, +)
        guard sum > values else { return nil }
        let names = repeated.map { "'\($0.key)'" }.joined(separator: " and ")
        return "\(names) have \(sum) values; together at most \(values) are taken"
    }
}
