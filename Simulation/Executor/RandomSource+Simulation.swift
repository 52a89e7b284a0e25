import Vocabulary

extension RandomSource {
    /// A generator that closures share, on the simulation's one thread.
    init(seed: UInt64, for use: StaticString) {
        let generator = Unchecked(Shared(SplitMix(seed: seed, for: use)))
        self.init { generator.value.base.next() }
    }

    private final class Shared {
        var base: SplitMix

        init(_ base: SplitMix) { self.base = base }
    }
}
