/// A condition did not come to hold.
package struct WaitedTooLong: Error, CustomStringConvertible {
    /// What did not happen.
    package var description: String

    /// An error of this description.
    package init(description: String) { self.description = description }
}

/// Waits for a condition, however slow the machine is; only a test that fails gets to the limit.
package func waitUntil(
    _ what: String,
    limit: Duration = .seconds(60),
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw WaitedTooLong(description: "not within \(limit): \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}
