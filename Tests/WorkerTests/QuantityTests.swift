import Testing

@testable import ConfigurationKeys

struct QuantityTests {
    @Test(
        "Durations are read with each unit",
        arguments: [
            ("250ms", Duration.milliseconds(250)), ("30s", .seconds(30)), ("15m", .seconds(900)),
            ("12h", .seconds(43_200)),
            ("30d", .seconds(2_592_000)), ("0s", .zero),
        ]
    )
    func durations(text: String, duration: Duration) {
        #expect(Quantity.duration(text) == duration)
    }

    @Test(
        "Texts that are not durations are refused",
        arguments: ["", "s", "30", "-1s", "1.5s", "30 s", "30S", "1h30m", "99999999999999999999s", "٣s", "+1s"]
    )
    func notDurations(text: String) {
        #expect(Quantity.duration(text) == nil)
    }

    @Test(
        "Sizes are read with each unit",
        arguments: [("1", 1), ("512B", 512), ("256KiB", 262_144), ("4MiB", 4_194_304), ("1GiB", 1_073_741_824)]
    )
    func sizes(text: String, bytes: Int) {
        #expect(Quantity.bytes(text) == bytes)
    }

    @Test(
        "Texts that are not sizes are refused",
        arguments: ["", "KiB", "1KB", "1 KiB", "-1", "1kib", "9999999999999999999999"]
    )
    func notSizes(text: String) {
        #expect(Quantity.bytes(text) == nil)
    }
}
