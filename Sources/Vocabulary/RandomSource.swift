/// A source of random numbers, injectable for tests.
package struct RandomSource: RandomNumberGenerator, Sendable {
    /// The system's, which nobody can predict.
    package static let system = RandomSource {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }

    private let draw: @Sendable () -> UInt64

    package init(_ draw: @escaping @Sendable () -> UInt64) { self.draw = draw }

    package func next() -> UInt64 { draw() }

    /// A number in 0..<1.
    package func fraction() -> Double { Double(draw() >> 11) * 0x1p-53 }
}
