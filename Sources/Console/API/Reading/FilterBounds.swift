/// How much a request may ask for, in its query or in its body.
///
/// Each condition is planned before the statement's time limit counts much: their number bounds what that costs.
enum FilterBounds {
    /// The longest value, in bytes of UTF-8; a message id takes 4,096.
    static let bytes = 4_096
    /// The most values of what may be repeated: of one name, and of all such names together.
    static let values = 100

    /// Checks what a request selects by.
    ///
    /// - Parameter given: The values by their names.
    /// - Throws: A ``Problem`` with status 400 for a value that is too long, or too many of them.
    static func check(_ given: [String: [String]]) throws(Problem) {
        let given = given.sorted { $0.key < $1.key }
        for (name, texts) in given where texts.contains(where: { $0.utf8.count > bytes }) {
            throw .badRequest("'\(name)' is longer than \(bytes) bytes")
        }
        let repeated = given.filter { $0.value.count > 1 }
        for (name, texts) in repeated where texts.count > values {
            throw .badRequest("'\(name)' is given \(texts.count) times; at most \(values) are taken")
        }
        let sum = repeated.map(\.value.count).reduce(0, +)
        guard sum <= values else {
            let names = repeated.map { "'\($0.key)'" }.joined(separator: " and ")
            throw .badRequest("\(names) have \(sum) values; together at most \(values) are taken")
        }
    }
}
