/// A source of random numbers, injectable for tests.
package struct RandomSource: RandomNumberGenerator, Sendable {
    /// The system's, which nobody can predict.
    package static let system = RandomSource { .random(in: 0 ... .max) }

    private let draw: @Sendable () -> UInt64

    package init(_ draw: @escaping @Sendable () -> UInt64) { self.draw = draw }

    package func next() -> UInt64 { draw() }

    package func digest() -> Digest128 { Digest128(high: draw(), low: draw()) }

    /// Bytes of a key, 8 a word.
    package func bytes(words: Int) -> [UInt8] {
        (0..<words).flatMap { _ in withUnsafeBytes(of: draw()) { Array($0) } }
    }

    /// A number in 0..<1.
    package func fraction() -> Double { Double(draw() >> 11) * 0x1p-53 }
}
