/// How long what is kept is kept.
package struct RetentionPolicy: Sendable, Equatable {
    /// How long bodies are kept: messages, conflicts and quarantined stanzas.
    package var messages: Duration
    /// How long the ledger knows a message.
    ///
    /// The configuration sees to it that it is no shorter than ``messages`` and than the peer's longest redelivery.
    package var dedupeWindow: Duration

    package init(messages: Duration, dedupeWindow: Duration) {
        self.messages = messages
        self.dedupeWindow = dedupeWindow
    }

    /// Bodies from before this time are too old: microseconds since 1970-01-01 UTC.
    package func bodiesEnd(_ now: Int64) -> Int64 { now - messages.microseconds }

    /// Ledger rows from before this time are too old: microseconds since 1970-01-01 UTC.
    package func ledgerEnd(_ now: Int64) -> Int64 { now - dedupeWindow.microseconds }

    /// What becomes of the bodies of a day, as far as time alone decides: a day goes once its last moment is too old.
    package func fate(of day: UTCDay, _ now: Int64) -> PartitionPlan.Fate {
        if day.end <= bodiesEnd(now) { return .drop }
        return day > UTCDay(microseconds: now) ? .ahead : .keep
    }
}

extension UTCDay {
    private static let length: Int64 = 86_400_000_000

    /// The day's first moment: microseconds since 1970-01-01 UTC.
    package var start: Int64 { number * Self.length }

    /// The next day's first moment: microseconds since 1970-01-01 UTC.
    package var end: Int64 { start + Self.length }

    /// The day that the name of a partition speaks of, `messages_YYYYMMDD`; nil for any other name.
    package init?(partition name: String) {
        let prefix = "messages_"
        let digits = name.dropFirst(prefix.count)
        guard name.hasPrefix(prefix), digits.utf8.count == 8, digits.allSatisfy({ $0.isASCII && $0.isNumber }),
            let date = Int64(digits)
        else { return nil }
        // Days from the civil date, counted in eras of 400 years that begin on 1 March.
        let (month, day) = (date / 100 % 100, date % 100)
        guard (1...12).contains(month), (1...31).contains(day) else { return nil }
        let year = date / 10_000 - (month <= 2 ? 1 : 0)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let yearOfEra = year % 400
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        self.init(number: year / 400 * 146_097 + dayOfEra - 719_468)
    }
}
