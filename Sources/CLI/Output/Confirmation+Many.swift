import Vocabulary

extension Terminal {
    /// Asks before something that affects more than 100 rows.
    ///
    /// - Parameters:
    ///   - count: How many rows; up to 100 need no answer.
    ///   - question: What is about to happen.
    ///   - isConfirmed: Whether `--yes` was given.
    /// - Throws: As ``confirm(_:yes:because:)``.
    func confirmMany(_ count: Int, _ question: String, yes isConfirmed: Bool) throws(CommandFailure) {
        guard count > 100 else { return }
        try confirm(question, yes: isConfirmed, because: "this concerns \(Amount.count(count)), more than 100")
    }
}
