/// The version of the program.
enum Version {
    /// Semantic version; the CHANGELOG has an entry for it.
    static let current = "0.1.0"
}
