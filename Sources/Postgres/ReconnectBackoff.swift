/// How long to wait before the next attempt to connect: exponential with full jitter.
///
/// A value without clock or randomness of its own.
package struct ReconnectBackoff: Sendable, Equatable {
    /// The upper bound of the first wait, in milliseconds.
    package var initial: Int64 = 250
    /// The upper bound of any wait, in milliseconds.
    package var maximum: Int64
    /// Failures since the last success.
    package private(set) var failures = 0

    /// A back-off without failures.
    ///
    /// - Parameter maximum: The upper bound of any wait, in milliseconds.
    package init(maximum: Int64 = 10_000) { self.maximum = maximum }

    /// The next wait in milliseconds, after one more failure: uniform between 0 and a bound that doubles each time.
    package mutating func failed(using generator: inout some RandomNumberGenerator) -> Int64 {
        let bound = min(maximum, initial << Int64(min(failures, 20)))
        failures = min(failures + 1, 1_000)
        return Int64.random(in: 0...bound, using: &generator)
    }

    /// A connection stands.
    package mutating func succeeded() { failures = 0 }
}
