/// A handler's activity in one worker at one moment.
package struct HandlerActivity: Sendable, Equatable {
    package var handler: String
    package var circuit: CircuitBreaker.Phase
    /// The time until the next probe may begin; nil if the circuit is not open.
    package var nextProbe: Duration?
    /// Whether it is paused, as far as this worker knows.
    package var isPaused: Bool
    /// Attempts under way.
    package var running: Int
    /// Deliveries waiting in memory.
    package var waiting: Int
}
