import ArgumentParser
import Replaying

struct ReplayPaceOptions: ParsableArguments {
    @Option(help: ArgumentHelp("At most this many messages per second, for example 100/s.", valueName: "n/s"))
    var rate: RateArgument?
    @Option(
        help: ArgumentHelp(
            "Original pacing, that many times as fast as received, for example 1x or 10x.",
            valueName: "nx"
        )
    )
    var speed: SpeedArgument?
    @Option(
        help: "The most in flight: deliveries that wait for handlers (default 1000), or unacked messages (default 100)."
    )
    var concurrency: Int?

    func validate() throws {
        if let concurrency, !ReplayPace.concurrencies.contains(concurrency) {
            throw ValidationError("--concurrency takes 1 to 100000")
        }
    }

    /// Whether anything is set.
    var isEmpty: Bool { rate == nil && speed == nil && concurrency == nil }

    /// The pace; options that are not given keep their values.
    func make(over pace: ReplayPace = ReplayPace()) -> ReplayPace {
        ReplayPace(
            rate: rate?.value ?? pace.rate,
            speed: speed?.value ?? pace.speed,
            concurrency: concurrency ?? pace.concurrency
        )
    }
}

/// `100/s`, `0.5/s`, `100`.
struct RateArgument: ExpressibleByArgument {
    let value: Double

    init?(argument: String) {
        guard let value = ReplayPace.rate(argument, "/s") else { return nil }
        self.value = value
    }
}

/// `1x`, `10x`, `0.5x`.
struct SpeedArgument: ExpressibleByArgument {
    let value: Double

    init?(argument: String) {
        guard let value = ReplayPace.rate(argument, "x") else { return nil }
        self.value = value
    }
}

extension ReplayPace {
    /// A number, with its unit or without.
    fileprivate static func rate(_ text: String, _ unit: String) -> Double? {
        Double(text.hasSuffix(unit) ? String(text.dropLast(unit.count)) : text).flatMap {
            rates.contains($0) ? $0 : nil
        }
    }
}
