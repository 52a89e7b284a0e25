/// An instant whose layout the compiler knows: a `ContinuousClock.Instant` is copied by the runtime's slow path.
@propertyWrapper
package struct FixedInstant: Hashable, Sendable {
    private static let origin = ContinuousClock.now

    private var offset: Duration

    package init(wrappedValue: ContinuousClock.Instant) { offset = Self.origin.duration(to: wrappedValue) }

    package init(_ instant: ContinuousClock.Instant) { self.init(wrappedValue: instant) }

    package var wrappedValue: ContinuousClock.Instant {
        get { Self.origin + offset }
        set { offset = Self.origin.duration(to: newValue) }
    }
}
