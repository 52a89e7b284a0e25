/// What a handler is doing in one worker at one moment.
package struct HandlerActivity: Sendable, Equatable {
    /// The handler's name.
    package var handler: String
    /// What its circuit breaker is doing.
    package var circuit: CircuitBreaker.Phase
    /// How long until the next probe may begin; nil where the circuit is not open.
    package var nextProbe: Duration?
    /// Whether it is paused, as far as this worker knows.
    package var isPaused: Bool
    /// Attempts under way.
    package var running: Int
    /// Deliveries that wait in memory.
    package var waiting: Int
}
