/// Keeps an instant in a form whose layout the compiler knows.
///
/// That of `ContinuousClock.Instant` is hidden: each copy of a value that holds one, however deep inside, takes the long way by the
/// runtime's tables.
@propertyWrapper
package struct FixedInstant: Hashable, Sendable {
    /// What instants are counted from.
    private static let origin = ContinuousClock.now

    private var offset: Duration

    package init(wrappedValue: ContinuousClock.Instant) { offset = Self.origin.duration(to: wrappedValue) }

    /// The form that keeps this instant.
    package init(_ instant: ContinuousClock.Instant) { self.init(wrappedValue: instant) }

    /// The instant.
    package var wrappedValue: ContinuousClock.Instant {
        get { Self.origin + offset }
        set { offset = Self.origin.duration(to: newValue) }
    }
}
