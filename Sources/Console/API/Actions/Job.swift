import Foundation
import HTTPTypes
import MessageStore
import Postgres
import Vocabulary

/// An action on many rows, as its row of `jobs` shows it.
struct Job: Sendable {
    /// Names it.
    var id: Digest128
    /// What is done, as the audit trail names it.
    var action: String
    /// The filter, for people.
    var subject: String
    /// `planned`, `running`, `finished`, `cancelled` or `failed`.
    var state: String
    /// How many rows were frozen.
    var planned: Int
    /// On how many it acted.
    var done: Int
    /// How many were gone by then.
    var skipped: Int
    /// Who asked for it.
    var createdBy: String
    /// When the set was frozen.
    var createdAt: Timestamp
    /// Until when it can be started.
    var expiresAt: Timestamp
    /// Whether it was not started until then.
    var isExpired: Bool
    /// Who started it.
    var startedBy: String?
    /// When it was started.
    var startedAt: Timestamp?
    /// Why.
    var reason: String?
    /// When it ended.
    var finishedAt: Timestamp?
    /// What made it fail, or holds it up while it runs.
    var lastError: String?
    /// How many of which handler and error group, as JSON.
    var groups: [UInt8]

    /// Whether nothing more happens to it.
    var hasEnded: Bool { isExpired || !["planned", "running"].contains(state) }

    /// Reads a row of ``JobStatements``.
    static func read(_ row: inout PostgresRow) throws(PostgresError) -> Job {
        Job(
            id: try row.next(),
            action: try row.next(),
            subject: try row.next(),
            state: try row.next(),
            planned: try row.next(),
            done: try row.next(),
            skipped: try row.next(),
            createdBy: try row.next(),
            createdAt: try row.next(),
            expiresAt: try row.next(),
            isExpired: try row.next(),
            startedBy: try row.next(),
            startedAt: try row.next(),
            reason: try row.next(),
            finishedAt: try row.next(),
            lastError: try row.next(),
            groups: Array(try row.next(String.self).utf8)
        )
    }
}

/// The tables `jobs` and `job_items`.
enum Jobs {
    /// The most dead letters that one job takes.
    static let most = 1_000_000
    /// The most sets that are frozen and not started.
    static let mostPlanned = 100
    /// The most dead letters that all sets and running jobs hold together, and `job_items` with them.
    static let mostHeld = 5_000_000

    /// Freezes the dead letters of a filter, inside a transaction.
    ///
    /// - Returns: The job; nil where there is nothing to act on; a problem where it is too many, which must be rolled back.
    static func freeze(
        _ connection: isolated PostgresConnection,
        _ fate: DeadLetters.Fate,
        _ filter: DeadLetterFilter,
        who: String,
        most: Int = Jobs.most
    ) throws(PostgresError) -> Result<Job?, Problem> {
        try connection.run(JobStatements.release)
        guard try connection.run(JobStatements.planned(limit: mostPlanned)).value(Int.self) < mostPlanned else {
            return .failure(tooMany("\(mostPlanned) sets wait to be started"))
        }
        let room = mostHeld - (try connection.run(JobStatements.held).value(Int.self))
        guard room > 0 else { return .failure(full) }
        let statement = JobStatements.freeze(
            fate.action.rawValue,
            filter,
            subject: "dead letters" + filter.description,
            who: who,
            most: min(most, room) + 1
        )
        let job = try connection.run(statement).first(Job.read)
        guard let job, job.planned > min(most, room) else { return .success(job) }
        guard job.planned > most else { return .failure(full) }
        return .failure(
            Problem(
                .unprocessableContent,
                "too-many",
                "Too many dead letters",
                "one job takes \(most) at most: narrow the filter (a group, a shorter time), or use `dead retry|discard`"
            )
        )
    }

    private static let full = tooMany("sets and running jobs would hold more than \(mostHeld) dead letters together")

    private static func tooMany(_ why: String) -> Problem {
        Problem(
            .tooManyRequests,
            "too-many-jobs",
            "Too many sets are prepared",
            "\(why): start or cancel one, or wait until they expire after 15 minutes",
            headers: [.retryAfter: "60"]
        )
    }

    /// Starts a job, inside a transaction; one that was started before is given as it is.
    ///
    /// - Returns: The job, or why it can't be started.
    static func start(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        _ fate: DeadLetters.Fate,
        by author: AuditAuthor
    ) throws(PostgresError) -> Result<Job, Problem> {
        let action = fate.action
        let statement = JobStatements.start(id, action.rawValue, who: author.name, reason: author.reason)
        if let job = try connection.run(statement).first(Job.read) {
            try AuditLog.record(connection, action, job.subject, count: job.planned, by: author)
            return .success(job)
        }
        guard let job = try connection.run(JobStatements.find(id)).first(Job.read) else {
            return .failure(.notFound("there is no set with this id, or it expired: ask for it again"))
        }
        guard job.action == action.rawValue else {
            return .failure(
                Problem(
                    .conflict,
                    "other-action",
                    "Another action",
                    "this set was frozen for \(job.action): nothing was done"
                )
            )
        }
        guard job.state != "failed" else {
            return .failure(
                Problem(
                    .conflict,
                    "job-failed",
                    "The job has failed",
                    "\(job.done) of \(job.planned) are done and stay done: \(job.lastError ?? ""); mend that, then ask for the set "
                        + "again"
                )
            )
        }
        guard !job.isExpired, job.state != "cancelled" else {
            return .failure(
                Problem(
                    .gone,
                    "expired",
                    job.isExpired ? "The set has expired" : "The job was cancelled",
                    "nothing was done: ask for the set again, and look at what it holds now"
                )
            )
        }
        return .success(job)
    }

    /// Cancels a job, inside a transaction: what it has done stays done.
    ///
    /// - Returns: The job; nil where there is none.
    static func cancel(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        by author: AuditAuthor
    ) throws(PostgresError) -> Job? {
        guard let job = try connection.run(JobStatements.cancel(id)).first(Job.read) else {
            return try connection.run(JobStatements.find(id)).first(Job.read)
        }
        try connection.run(JobStatements.deleteItems(id))
        if job.startedBy != nil, let action = AuditAction(rawValue: job.action) {
            let subject = "cancelled: " + job.subject
            try AuditLog.record(connection, action, subject, count: job.done, by: author, isEnd: true)
        }
        return job
    }

    /// Gives a job up, in one transaction: what it has done stays done.
    ///
    /// - Throws: ``PostgresError``; it still runs then.
    static func fail(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        _ error: String
    ) throws(PostgresError) {
        try connection.transaction { connection throws(PostgresError) in
            guard let job = try connection.run(JobStatements.fail(id, error)).first(Job.read) else { return }
            try connection.run(JobStatements.deleteItems(id))
            guard let action = AuditAction(rawValue: job.action) else { return }
            let author = AuditAuthor(job.startedBy ?? "console", via: .console, reason: job.reason)
            try AuditLog.record(connection, action, "failed: " + job.subject, count: job.done, by: author, isEnd: true)
        }
    }

    /// Acts on the next chunk of a job, in one transaction.
    ///
    /// - Throws: ``PostgresError``; nothing of the chunk is done then.
    /// - Returns: Whether there was one: false where the job has ended, or another console is at it.
    static func step(_ connection: isolated PostgresConnection, _ id: Digest128) throws(PostgresError) -> Bool {
        try connection.transaction { connection throws(PostgresError) in
            let found = try connection.run(JobStatements.lock(id)).first { row throws(PostgresError) in
                (
                    action: try row.next(String.self), subject: try row.next(String.self),
                    planned: try row.next(Int.self), chunks: try row.next(Int.self), chunk: try row.next(Int.self),
                    done: try row.next(Int.self), who: try row.next(String?.self), reason: try row.next(String?.self)
                )
            }
            guard let job = found else { return false }
            let action: AuditAction = job.action == AuditAction.discardDead.rawValue ? .discardDead : .retryDead
            let statement =
                action == .discardDead
                ? JobStatements.discard(id, chunk: job.chunk) : JobStatements.retry(id, chunk: job.chunk)
            let (held, done) = try connection.run(statement).only { row throws(PostgresError) in
                let counts = (try row.next(Int.self), try row.next(Int.self))
                row.skipRest()
                return counts
            }
            let isLast = job.chunk + 1 >= job.chunks
            try connection.run(JobStatements.advance(id, done: done, skipped: held - done, isLast: isLast))
            guard isLast else { return true }
            try connection.run(JobStatements.deleteItems(id))
            // One of a single transaction can't be interrupted between its entries.
            guard job.chunks > 1 || job.done + done != job.planned else { return true }
            let author = AuditAuthor(job.who ?? "console", via: .console, reason: job.reason)
            try AuditLog.record(connection, action, job.subject, count: job.done + done, by: author, isEnd: true)
            return true
        }
    }
}
