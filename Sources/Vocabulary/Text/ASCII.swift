extension UInt8 {
    /// Whether it is one of ASCII's lower-case letters and digits.
    @inlinable package var isLowercaseOrDigit: Bool { (0x61...0x7A).contains(self) || (0x30...0x39).contains(self) }

    /// Whether it is one of ASCII's letters and digits.
    @inlinable package var isLetterOrDigit: Bool { isLowercaseOrDigit || (0x41...0x5A).contains(self) }
}
