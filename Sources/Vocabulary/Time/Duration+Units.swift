extension Duration {
    /// Whole nanoseconds; 0 for a negative duration, the maximum for one over 584 years.
    package var nanoseconds: UInt64 {
        guard components.seconds >= 0, components.attoseconds >= 0 else { return 0 }
        let (seconds, overflow) = UInt64(components.seconds).multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = seconds.addingReportingOverflow(UInt64(components.attoseconds / 1_000_000_000))
        return overflow || carry ? .max : sum
    }

    /// Whole microseconds, rounded towards zero.
    package var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }

    /// Whole milliseconds, rounded towards zero.
    package var milliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }

    package var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }
}
