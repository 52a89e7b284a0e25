import CCSEmulator
import Vocabulary

/// SplitMix64: small, fast, and the same everywhere.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// A generator of its own for each use, so that more of one draws nothing from another.
    init(seed: UInt64, for use: StaticString) {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        use.withUTF8Buffer { for byte in $0 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 } }
        // Mixed, as neighbouring states give nearly the same numbers.
        var mixed = SplitMix(seed: seed)
        state = mixed.next() ^ hash
        state = next()
    }

    mutating func next() -> UInt64 {
        defer { state &+= 0x9E37_79B9_7F4A_7C15 }
        return CCSEmulator.SplitMix.mix(state)
    }

    /// A number below `limit`, which is positive.
    mutating func below(_ limit: Int) -> Int { Int(((next() >> 32) &* UInt64(limit)) >> 32) }

    /// A number in 0..<1.
    mutating func fraction() -> Double { Double(next() >> 11) * 0x1p-53 }

    mutating func chance(_ probability: Double) -> Bool { fraction() < probability }

    /// A time between the two, with short ones as likely as long ones by magnitude.
    mutating func time(_ least: Duration, _ most: Duration) -> Duration {
        let (low, high) = (Double(least.nanoseconds), Double(most.nanoseconds))
        return .nanoseconds(Int64(low * power(high / low, fraction())))
    }

    private func power(_ base: Double, _ exponent: Double) -> Double {
        // Halving steps: the same on every machine, which a library's function need not be.
        var (result, root, rest) = (1.0, base, exponent)
        for _ in 0..<16 {
            root = root.squareRoot()
            rest *= 2
            if rest >= 1 {
                result *= root
                rest -= 1
            }
        }
        return result
    }
}

extension RandomSource {
    /// A generator that closures share, on the simulation's one thread.
    init(seed: UInt64, for use: StaticString) {
        var generator = SplitMix(seed: seed, for: use)
        let next = Unchecked({ generator.next() })
        self.init { next.value() }
    }
}
