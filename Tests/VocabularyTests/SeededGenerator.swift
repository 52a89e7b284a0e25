/// SplitMix64: the same numbers in every run, so that a failure can be seen again.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var number = state
        number = (number ^ number >> 30) &* 0xBF58_476D_1CE4_E5B9
        number = (number ^ number >> 27) &* 0x94D0_49BB_1331_11EB
        return number ^ number >> 31
    }

    /// Up to so many bytes of any value.
    mutating func bytes(upTo count: Int) -> [UInt8] {
        (0..<Int.random(in: 0...count, using: &self)).map { _ in UInt8.random(in: 0...255, using: &self) }
    }

    /// Up to so many characters, half of them of the kinds that escapes are about.
    mutating func text(upTo count: Int) -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0...count, using: &self) {
            let ranges: [ClosedRange<UInt32>] = [
                0...0x20, 0x20...0x7F, 0x7F...0xA0, 0x2000...0x206F, 0xD7F0...0xD7FF, 0xE000...0xFFFF,
                0x10000...0x10FFFF,
            ]
            let value = UInt32.random(in: ranges.randomElement(using: &self) ?? 0...0x7F, using: &self)
            text.unicodeScalars.append(Unicode.Scalar(value) ?? "x")
        }
        return text
    }
}
