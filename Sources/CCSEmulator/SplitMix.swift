/// The SplitMix64 finaliser: all randomness in the emulator is a function of the seed and a number, to be repeatable.
package enum SplitMix {
    package static func mix(_ value: UInt64) -> UInt64 {
        var z = value &+ 0x9E37_79B9_7F4A_7C15
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// A permutation of the numbers with twelve decimal digits that scatters neighbours.
///
/// Multiplication modulo 10¹² by an odd factor that is not a multiple of five, so it has an inverse.
enum ScatteredNumber {
    private static let factor: UInt64 = 618_033_988_749
    private static let inverse: UInt64 = 777_698_823_749
    private static let modulus: UInt64 = 1_000_000_000_000

    static func number(_ sequence: Int) -> Int { product(sequence, factor) }

    static func sequence(_ number: Int) -> Int { product(number, inverse) }

    private static func product(_ value: Int, _ factor: UInt64) -> Int {
        let product = (UInt64(value.magnitude) % modulus).multipliedFullWidth(by: factor)
        return Int(modulus.dividingFullWidth(product).remainder)
    }
}
