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
