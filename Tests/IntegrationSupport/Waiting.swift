/// A condition did not come to hold.
package struct WaitedTooLong: Error, CustomStringConvertible {
    /// What did not happen.
    package var description: String

    /// An error of this description.
    package init(description: String) { self.description = description }
}

/// Waits for a condition, however slow the machine is; only a test that fails gets to the limit.
///
/// - Parameters:
///   - what: What is waited for, for the error; by default the place of the call.
///   - limit: When it is an error.
///   - file: Of the call.
///   - line: Of the call.
///   - isolation: The caller's actor, on which the condition is tried.
///   - condition: Tried every 10 ms.
/// - Throws: ``WaitedTooLong``, or what the condition throws.
package func waitUntil(
    _ what: String = "",
    limit: Duration = .seconds(180),
    file: String = #fileID,
    line: Int = #line,
    isolation: isolated (any Actor)? = #isolation,
    _ condition: () async throws -> Bool
) async throws {
    let what = what.isEmpty ? "the condition at \(file):\(line)" : what
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw WaitedTooLong(description: "not within \(limit): \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// Repeats an operation until it succeeds, or throws its last error at the limit.
package func retry<T>(
    every pause: Duration = .milliseconds(10),
    limit: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> T
) async throws -> T {
    let deadline = ContinuousClock.now + limit
    while true {
        do {
            return try await body()
        } catch {
            guard ContinuousClock.now < deadline else { throw error }
            try await Task.sleep(for: pause)
        }
    }
}

/// Does something at a pace until its task is cancelled: the load that a test sends.
package func repeating(
    every pause: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async -> Void
) async {
    while !Task.isCancelled {
        await body()
        guard (try? await Task.sleep(for: pause)) != nil else { return }
    }
}

/// Runs an operation that must not take for ever.
///
/// Beyond the limit `onLimit` is called, which has to end it, and an error is thrown.
package func withLimit(
    _ limit: Duration,
    _ what: String,
    _ body: @escaping @Sendable () async throws -> Void,
    onLimit: @escaping @Sendable () -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            onLimit()
            throw WaitedTooLong(description: "not within \(limit): \(what)")
        }
        try await group.next()
        group.cancelAll()
    }
}
