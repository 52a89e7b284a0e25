import Foundation
import HTTPTypes
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// An action on many rows: a row of `jobs`.
struct Job: Sendable {
    var id: Digest128
    /// The action's name in the audit trail.
    var action: String
    /// The filter in words.
    var subject: String
    /// `planned`, `running`, `finished`, `cancelled` or `failed`.
    var state: String
    /// The number of frozen rows.
    var planned: Int
    /// The number of rows acted on.
    var done: Int
    /// The number of rows gone before their turn.
    var skipped: Int
    /// Who requested it.
    var createdBy: String
    /// When the set was frozen.
    var createdAt: Timestamp
    /// The last moment to start it.
    var expiresAt: Timestamp
    /// Whether it expired without being started.
    var isExpired: Bool
    var startedBy: String?
    var startedAt: Timestamp?
    var reason: String?
    var finishedAt: Timestamp?
    /// The error that made it fail, or that delays it while it runs.
    var lastError: String?
    var groups: JobGroups
    /// How many deliveries become due a second; nil for all at once.
    var rate: Double?
    /// When the last one queued is due, with a rate.
    var dueTo: Timestamp?

    /// Whether nothing more will happen to it.
    var hasEnded: Bool { isExpired || !["planned", "running"].contains(state) }

    func answer(_ status: HTTPResponse.Status, to sight: Sight) -> ActionAnswer {
        let location = status == .ok ? nil : "/api/v1/jobs/\(id)"
        return ActionAnswer(shown(to: sight), status, location: location)
    }
}

/// The counts of a frozen set by handler and error group; none if they can't be read.
struct JobGroups: ShownValue, SQLDecodable {
    private struct Group: Decodable {
        var handler: String
        var errorGroup: String
        var count: Int
    }

    private var groups: [Group]

    init(_ field: SQLField) throws(SQLFieldFault) {
        let (json, decoder) = (Data(try String(field).utf8), JSONDecoder())
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        groups = (try? decoder.decode([Group].self, from: json)) ?? []
    }

    static var schema: ValueSchema { ValueSchema("array", items: JSONObject.self) }

    func write(to json: inout JSONWriter) {
        let groups: [JSONObject] = groups.map {
            ["count": $0.count, "error_group": $0.errorGroup, "handler": $0.handler]
        }
        groups.write(to: &json)
    }

    func shown(to sight: Sight) -> JobGroups {
        var shown = self
        for index in groups.indices { shown.groups[index].errorGroup = sight.group(groups[index].errorGroup) }
        return shown
    }
}

enum Jobs {
    /// The most dead letters per job.
    static let most = 1_000_000
    /// The most frozen sets that are not started.
    static let mostPlanned = 100
    /// The most dead letters in all frozen sets and running jobs together, and so in `job_items`.
    static let mostHeld = 5_000_000

    /// Freezes the dead letters of a filter, inside a transaction.
    ///
    /// - Returns: The job; nil if nothing matches; a problem if too much does, and then the transaction must be rolled
    ///   back.
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
        let job = try connection.run(JobStatements.freeze(fate, filter, who: who, most: min(most, room) + 1))
            .firstRow(Job.init)
        guard let job, job.planned > min(most, room) else { return .success(job) }
        guard job.planned > most else { return .failure(full) }
        let fix = "narrow the filter (a group, a shorter time), or use `dead retry|discard`"
        return .failure(Problem(.tooMany, "one job takes \(most) at most: \(fix)"))
    }

    private static let full = tooMany("sets and running jobs would hold more than \(mostHeld) dead letters together")

    private static func tooMany(_ why: String) -> Problem {
        Problem(.tooManyJobs, "\(why): start or cancel one, or wait until they expire after 15 minutes")
    }

    /// Starts a job, inside a transaction; one already started is returned unchanged.
    ///
    /// - Returns: The job, or why it can't be started.
    static func start(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        _ fate: DeadLetters.Fate,
        rate: RetryRate? = nil,
        by author: AuditAuthor
    ) throws(PostgresError) -> Result<Job, Problem> {
        let action = fate.action
        let statement = JobStatements.start(id, action.rawValue, who: author.name, reason: author.reason, rate: rate)
        if let job = try connection.run(statement).firstRow(Job.init) {
            if let refusal = rate?.refusal(of: job.planned) {
                return .failure(.badRequest("at this 'rate' \(refusal)"))
            }
            try AuditLog.record(connection, action, job.subject + (rate?.words ?? ""), count: job.planned, by: author)
            return .success(job)
        }
        guard let job = try connection.run(JobStatements.find(id)).firstRow(Job.init) else {
            return .failure(.notFound("there is no set with this id, or it expired: ask for it again"))
        }
        guard job.action == action.rawValue else {
            return .failure(Problem(.otherAction, "this set was frozen for \(job.action): nothing was done"))
        }
        guard job.state != "failed" else {
            let done = "\(job.done) of \(job.planned) are done and stay done: \(job.lastError ?? "")"
            return .failure(Problem(.jobFailed, "\(done); mend that, then ask for the set again"))
        }
        guard !job.isExpired, job.state != "cancelled" else {
            let fix = "nothing was done: ask for the set again, and look at what it holds now"
            return .failure(Problem(job.isExpired ? .expired : .jobCancelled, fix))
        }
        return .success(job)
    }

    /// Cancels a job, inside a transaction; rows already processed stay so.
    ///
    /// - Returns: The job; nil if it doesn't exist.
    static func cancel(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        by author: AuditAuthor
    ) throws(PostgresError) -> Job? {
        guard let job = try connection.run(JobStatements.cancel(id)).firstRow(Job.init) else {
            return try connection.run(JobStatements.find(id)).firstRow(Job.init)
        }
        try connection.run(JobStatements.deleteItems(id))
        if job.startedBy != nil, let action = AuditAction(rawValue: job.action) {
            let subject = "cancelled: " + job.subject
            try AuditLog.record(connection, action, subject, count: job.done, by: author, isEnd: true)
        }
        return job
    }

    /// Marks a job as failed, in one transaction; rows already processed stay so.
    ///
    /// - Throws: ``PostgresError``; the job still runs then.
    static func fail(_ connection: isolated PostgresConnection, _ id: Digest128, _ why: String) throws(PostgresError) {
        try connection.transaction { connection throws(PostgresError) in
            guard let job = try connection.run(JobStatements.fail(id, why)).firstRow(Job.init) else { return }
            try connection.run(JobStatements.deleteItems(id))
            guard let action = AuditAction(rawValue: job.action) else { return }
            let author = AuditAuthor(job.startedBy ?? "console", via: .console, reason: job.reason)
            try AuditLog.record(connection, action, "failed: " + job.subject, count: job.done, by: author, isEnd: true)
        }
    }

    /// A job that is locked for its next step.
    private struct Held {
        var action, subject: String
        var planned, chunks, chunk, done: Int
        var who, reason: String?
        var rate: Double?
        /// When what is queued before is due, or now.
        var dueTo: Timestamp
    }

    /// Processes a job's next chunk, in one transaction.
    ///
    /// - Throws: ``PostgresError``; nothing of the chunk is done then.
    /// - Returns: Whether there was one: false if the job has ended, or another console works on it.
    static func step(_ connection: isolated PostgresConnection, _ id: Digest128) throws(PostgresError) -> Bool {
        try connection.transaction { connection throws(PostgresError) in
            guard let job = try connection.run(JobStatements.lock(id)).firstRow(Held.init) else { return false }
            let fate: DeadLetters.Fate = job.action == AuditAction.discardDead.rawValue ? .discard : .retry
            let rate = job.rate.map(RetryRate.init)
            let due: SQL = rate.map { DeadLetterStatements.due(after: job.dueTo, $0) } ?? "now()"
            let done = try fate.run(connection, on: JobStatements.gone(id, job.chunk), due: due)
            let dueTo = rate.map { job.dueTo + $0.time(of: done) }
            let held = min(JobStatements.chunkSize, job.planned - job.chunk * JobStatements.chunkSize)
            let isLast = job.chunk + 1 >= job.chunks
            try connection.run(
                JobStatements.advance(id, done: done, skipped: held - done, isLast: isLast, dueTo: dueTo)
            )
            guard isLast else { return true }
            try connection.run(JobStatements.deleteItems(id))
            // A job of one transaction can't be interrupted between a start and an end entry.
            guard job.chunks > 1 || job.done + done != job.planned else { return true }
            let author = AuditAuthor(job.who ?? "console", via: .console, reason: job.reason)
            try AuditLog.record(connection, fate.action, job.subject, count: job.done + done, by: author, isEnd: true)
            return true
        }
    }
}
