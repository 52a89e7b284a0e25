package import Postgres
import Telemetry
package import Vocabulary

/// Whose history is asked for; as text `store`, `sender:ID` or `handler:NAME`.
package struct HistorySubject: Sendable, Hashable, LosslessStringConvertible {
    package let kind: Sample.Kind
    package let name: String

    package static let store = HistorySubject(.store, "")

    package static func handler(_ name: String) -> HistorySubject { HistorySubject(.handler, name) }

    private init(_ kind: Sample.Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

    package init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let word = parts.first, let kind = Sample.Kind(rawValue: String(word)),
            (kind == .store) == (parts.count == 1), parts.last?.isEmpty == false, !text.contains("\0")
        else { return nil }
        self.init(kind, parts.count > 1 ? String(parts[1]) : "")
    }

    package var description: String { kind == .store ? "store" : "\(kind.rawValue):\(name)" }
}

/// How far back a history goes, in steps that give 60 to 180 points.
package enum HistoryRange: String, CaseIterable, Sendable {
    case hour = "1h"
    case day = "24h"
    case week = "7d"

    var minutes: Int { self == .hour ? 60 : self == .day ? 1_440 : 10_080 }

    /// A point's length in minutes; at most 63, which ``HistoryPoint/minutes`` counts.
    package var step: Int { self == .hour ? 1 : self == .day ? 8 : 60 }
}

/// The figures of a span of time, over all processes.
package struct HistoryPoint: Sendable, Equatable {
    /// The span's start.
    package var at: Timestamp
    /// The number of minutes measured within it; 0 for a gap, where everything else is nil.
    package var minutes = 0
    package var received: Int?
    package var stored: Int?
    package var duplicates: Int?
    package var acked: Int?
    package var handled: Int?
    package var failed: Int?
    var times: [Int] = []
    /// The most deliveries that waited.
    package var waiting: Int?
    /// The age of the oldest delivery, at most, in seconds.
    package var oldest: Double?
    /// Whether the circuit was not closed, no stream was bound, or commits waited for a standby.
    package var isHeld = false
    /// The versions of the processes that started.
    package var started: [String] = []

    /// A gap.
    init(at: Timestamp) { self.at = at }

    /// A count per second of the time measured.
    package func rate(_ count: Int?) -> Double? {
        count.flatMap { minutes > 0 ? Double($0) / Double(minutes * 60) : nil }
    }

    package var attempts: Int? { handled.flatMap { handled in failed.map { handled + $0 } } }

    /// The share of attempts that failed, 0 to 1; nil without attempts.
    package var failedShare: Double? {
        attempts.flatMap { all in all > 0 ? failed.map { Double($0) / Double(all) } : nil }
    }

    /// How long a share of the attempts or acks took at most, in seconds, to the width of a histogram's bucket; nil
    /// without any, the highest bound for what took longer.
    package func time(below share: Double) -> Double? {
        let bounds = Histogram.latencyBounds
        guard times.count == bounds.count + 1 else { return nil }
        let snapshot = Histogram.Snapshot(counts: times.map { UInt64(clamping: $0) }, sum: 0)
        return snapshot.bound(below: share, in: bounds).map { min($0, bounds.last ?? 0) }
    }

    /// The figures of a later span added to these.
    package func adding(_ next: HistoryPoint) -> HistoryPoint {
        var sum = self
        for path in [\HistoryPoint.received, \.stored, \.duplicates, \.acked, \.handled, \.failed] {
            if let value = next[keyPath: path] { sum[keyPath: path] = (self[keyPath: path] ?? 0) + value }
        }
        sum.minutes += next.minutes
        sum.times = times.count == next.times.count ? zip(times, next.times).map { $0 + $1 } : times + next.times
        sum.waiting = [waiting, next.waiting].compactMap(\.self).max()
        sum.oldest = [oldest, next.oldest].compactMap(\.self).max()
        sum.isHeld = isHeld || next.isHeld
        sum.started += next.started
        return sum
    }

    /// Adds up every `count` points, so that there are fewer.
    package static func joined(_ points: [HistoryPoint], by count: Int) -> [HistoryPoint] {
        stride(from: 0, to: points.count, by: count).map { start in
            points[start + 1..<min(start + count, points.count)].reduce(points[start]) { $0.adding($1) }
        }
    }
}

/// A subject's figures over a range, without holes: what was not measured is a gap.
package struct History: Sendable {
    package var subject: HistorySubject
    package var range: HistoryRange
    /// The oldest first; the last one may not be complete.
    package var points: [HistoryPoint]

    /// The history of a subject up to the last complete minute.
    package static func read(
        _ connection: PostgresConnection,
        _ subject: HistorySubject,
        _ range: HistoryRange
    ) async throws(PostgresError) -> History {
        let (step, count) = (range.step, range.minutes / range.step)
        let end = try await connection.databaseTime().microseconds / Sample.minute
        let last = (end - 1) / Int64(step) * Int64(step)
        let first = last - Int64((count - 1) * step)
        func time(_ minute: Int64) -> Timestamp { Timestamp(microseconds: minute * Sample.minute) }
        var points = (0..<count).map { HistoryPoint(at: time(first + Int64($0 * step))) }
        let span = HistoryStatements.Span(since: time(first), until: time(end), step: step)
        for (_, place, point) in try await rows(connection, subject.kind, [subject.name], span)
        where points.indices.contains(place) {
            let at = points[place].at
            points[place] = point
            points[place].at = at
        }
        return History(subject: subject, range: range, points: points)
    }

    /// The figures of the last complete hour of each handler that has any.
    package static func lastHour(
        _ connection: PostgresConnection,
        handlers: [String]
    ) async throws(PostgresError) -> [String: HistoryPoint] {
        let end = try await connection.databaseTime().microseconds / Sample.minute
        let (since, until) = (
            Timestamp(microseconds: (end - 60) * Sample.minute), Timestamp(microseconds: end * Sample.minute)
        )
        let span = HistoryStatements.Span(since: since, until: until, step: 60)
        let rows = try await rows(connection, .handler, handlers, span)
        return Dictionary(rows.map { ($0.subject, $0.point) }) { first, _ in first }
    }

    private static func rows(
        _ connection: PostgresConnection,
        _ kind: Sample.Kind,
        _ names: [String],
        _ span: HistoryStatements.Span
    ) async throws(PostgresError) -> [(subject: String, place: Int, point: HistoryPoint)] {
        try await connection.result(of: HistoryStatements.read(kind, names, span)).rows {
            var point = HistoryPoint(at: span.since)
            let minutes: Int64 = $2
            point.minutes = minutes.nonzeroBitCount
            (point.received, point.stored, point.duplicates, point.acked) = ($3, $4, $5, $6)
            (point.handled, point.failed, point.waiting, point.oldest) = ($7, $8, $9, $10)
            point.isHeld = $11
            point.started = ($12 as String?)?.split(separator: " ").map(String.init) ?? []
            let times: [String] = $13
            point.times = times.compactMap { Int($0) }
            return (subject: $0, place: $1, point: point)
        }
    }
}

enum HistoryStatements {
    struct Span: Sendable {
        var since: Timestamp
        var until: Timestamp
        /// In minutes, at most 63.
        var step: Int
    }

    /// The sums of samples by subject and step; a bit for each minute measured, so that nothing needs to be sorted.
    static func read(_ kind: Sample.Kind, _ names: [String], _ span: Span) -> SQL {
        let times = (1...Histogram.latencyBounds.count + 1).map { "sum(times[\($0)])::text" }
        let step = "\(span.step)"
        return """
            SELECT
                subject, (minute / \(raw: step))::bigint, bit_or(1::bigint << (minute % \(raw: step))::integer),
                sum(received)::bigint, sum(stored)::bigint, sum(duplicates)::bigint, sum(acked)::bigint,
                sum(handled)::bigint, sum(failed)::bigint, max(waiting), max(oldest), coalesce(bool_or(held), false),
                string_agg(started, ' '), array_remove(ARRAY[\(raw: times.joined(separator: ", "))], NULL)
            FROM (
                SELECT *, (date_part('epoch', at - \(span.since)) / 60)::bigint AS minute
                FROM upstream.samples
                WHERE kind = \(kind.rawValue) AND subject = ANY (\(names)) AND at >= \(span.since) AND at < \(span.until)
            ) AS sample
            GROUP BY subject, minute / \(raw: step)
            """
    }
}
