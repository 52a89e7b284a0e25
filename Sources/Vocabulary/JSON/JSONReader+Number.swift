extension JSONReader {
    /// Reads a number and notes whether `numeric` can hold it.
    ///
    /// The limits are those of PostgreSQL's `numeric_in`, which the cast to `jsonb` calls (measured with PostgreSQL
    /// 15):
    /// - the first digit that is not 0 is at most at 10^131071;
    /// - at most 16,383 digits remain after the decimal point once the exponent has moved it, including zeros;
    /// - the exponent is less than 1,073,741,823 (half of `INT_MAX`) either way, even of a zero.
    mutating func readNumber() throws(JSONSyntaxError) {
        let start = at
        if base[at] == UInt8(ascii: "-") { at += 1 }
        let integerStart = at
        guard at < end else { throw JSONSyntaxError(.unexpectedEnd, at: at) }
        skipDigits()
        let integerDigits = at - integerStart
        guard integerDigits > 0, integerDigits == 1 || base[integerStart] != UInt8(ascii: "0") else {
            throw JSONSyntaxError(.invalidNumber, at: start)
        }
        var fraction = at..<at
        if at < end, base[at] == UInt8(ascii: ".") {
            at += 1
            let first = at
            skipDigits()
            fraction = first..<at
            guard !fraction.isEmpty else {
                throw JSONSyntaxError(at < end ? .invalidNumber : .unexpectedEnd, at: at)
            }
        }
        var exponent = 0
        if at < end, base[at] | 0x20 == UInt8(ascii: "e") { exponent = try readExponent() }
        // Enough for common numbers: few digits and no exponent.
        if exponent == 0, integerDigits <= 131_072, fraction.count <= 16_383 { return }
        judge(integer: integerStart..<integerStart + integerDigits, fraction: fraction, exponent: exponent)
    }

    /// Reads an exponent, from its `e`.
    ///
    /// - Returns: Its value; beyond 10^10 only the sign is right.
    private mutating func readExponent() throws(JSONSyntaxError) -> Int {
        at += 1
        let sign = try peek()
        if sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { at += 1 }
        let first = at
        var value = 0
        while at < end, base[at] >= UInt8(ascii: "0"), base[at] <= UInt8(ascii: "9") {
            if value < 10_000_000_000 { value = value * 10 + Int(base[at] - UInt8(ascii: "0")) }
            at += 1
        }
        guard at > first else { throw JSONSyntaxError(at < end ? .invalidNumber : .unexpectedEnd, at: at) }
        return sign == UInt8(ascii: "-") ? -value : value
    }

    private mutating func judge(integer: Range<Int>, fraction: Range<Int>, exponent: Int) {
        let scale = fraction.count - exponent
        guard abs(exponent) < 1_073_741_823, scale <= 16_383 else {
            traits.insert(.numberOutOfRange)
            return
        }
        var position = integer.count - 1 + exponent
        for range in [integer, fraction] {
            for index in range {
                if base[index] != UInt8(ascii: "0") {
                    if position > 131_071 { traits.insert(.numberOutOfRange) }
                    return
                }
                position -= 1
            }
        }
    }

    @inline(__always)
    private mutating func skipDigits() {
        while at < end, base[at] >= UInt8(ascii: "0"), base[at] <= UInt8(ascii: "9") { at += 1 }
    }
}
