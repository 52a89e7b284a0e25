import Vocabulary

extension RandomSource {
    /// A generator that closures share, on the simulation's one thread.
    init(seed: UInt64, for use: StaticString) {
        var generator = SplitMix(seed: seed, for: use)
        let next = Unchecked({ generator.next() })
        self.init { next.value() }
    }
}
