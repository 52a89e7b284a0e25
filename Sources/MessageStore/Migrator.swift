package import Postgres
package import Vocabulary

/// How the database's schema compares with this binary's.
package enum SchemaState: Sendable, Equatable {
    /// The schema is this binary's.
    case current
    /// The schema `upstream` is empty.
    case missing
    /// Some of our migrations are not applied.
    case older(pending: [String])
    /// Migrations are applied that we don't know.
    case newer(unknown: [String])
    /// A file was changed after its migration was applied.
    case edited(version: String)
    /// Made by a build before 0.1.0 other than the last one: none of our migrations applies.
    case unreleased(last: String)

    /// Whether a migration makes it current, so that waiting helps.
    package var isAwaited: Bool {
        switch self {
        case .missing, .older, .newer, .unreleased: true
        case .current, .edited: false
        }
    }

    /// What is wrong and how to fix it; nil if nothing is.
    package var problem: String? {
        switch self {
        case .current: nil
        case .missing: "the database has no upstream schema: run `upstream-worker migrate up`"
        case .older(let pending):
            "the schema is older than this binary (\(pending.joined(separator: ", ")) not applied): "
                + "run `upstream-worker migrate up`"
        case .newer(let unknown):
            "the schema is newer than this binary (\(unknown.joined(separator: ", ")) applied): "
                + "install the release that made it, or go back with its `migrate down`"
        case .edited(let version):
            "migration \(version) was applied from another text than this binary holds: "
                + "install the release that made it; an applied migration is never edited"
        case .unreleased(let last):
            "the schema was made by a build from before 0.1.0 (\(last) is its last migration, of 0030): apply the others with "
                + "`migrate up` of the last such build, then run `upstream-worker migrate up`; or take an empty database"
        }
    }
}

/// Why a migration failed.
package enum MigrationError: Error, CustomStringConvertible {
    /// The database failed, or refused a step, which was rolled back whole.
    case database(PostgresError, version: String?)
    /// The schema is in a state that can't be migrated.
    case schema(SchemaState)

    /// Runs what no step is part of.
    static func catching<T: Sendable>(
        over connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(MigrationError) -> T {
        do throws(PostgresError) { return try await connection.run(body) } catch {
            throw .database(error, version: nil)
        }
    }

    package var description: String {
        switch self {
        case .database(let error, nil): String(describing: error)
        case .database(let error, let version?): "migration \(version): \(error)"
        case .schema(let state): state.problem ?? "the schema is current"
        }
    }
}

/// Applies and rolls back migrations, each in a transaction, under one lock.
package struct Migrator: Sendable {
    package struct Status: Sendable, Equatable {
        package var version: String
        /// The migration's name; empty if this binary doesn't know it.
        package var name: String
        package var appliedAt: Timestamp?
    }

    /// A row of `upstream.schema_migrations`.
    struct Applied: Sendable {
        var version: String
        var checksum: String
        var appliedAt: Timestamp
    }

    /// The longest that a step may take, in milliseconds: a day, since one may read every message.
    package static let statementTimeout = 86_400_000

    /// The longest that a step waits for one lock, in milliseconds.
    ///
    /// Whoever waits for a table's exclusive lock blocks everybody after it, workers included: a report that runs for
    /// hours must not stop receiving for hours. The step then fails with SQLSTATE 55P03 and is rolled back.
    package static let lockTimeout = 5_000

    private let migrations: [Migration]
    private let author: AuditAuthor?
    private let lockTimeout: Int

    /// Makes a migrator of the embedded steps, or of others for tests.
    ///
    /// The author is recorded with each step, if the schema has an audit trail then. A step waits `lockTimeout`
    /// milliseconds for a lock.
    package init(
        _ migrations: [Migration] = Migration.embedded,
        by author: AuditAuthor? = nil,
        lockTimeout: Int = Migrator.lockTimeout
    ) {
        self.migrations = migrations
        self.author = author
        self.lockTimeout = lockTimeout
    }

    /// Applies every missing step, and returns their versions.
    ///
    /// Then creates the partitions from yesterday to a week ahead, and the indexes that could not be built within a
    /// step.
    package func up(
        _ connection: PostgresConnection,
        today: UTCDay = .today()
    ) async throws(MigrationError) -> [String] {
        var done: [String] = []
        while case let steps = try await step(connection, .up), !steps.isEmpty { done += steps.map(\.version) }
        if !migrations.isEmpty, migrations == Migration.embedded {
            _ = try await MigrationError.catching(over: connection) { connection throws(PostgresError) in
                _ = try Partitions.ensure(connection, around: today)
                _ = try AttemptDays.ensure(connection, around: today)
                try Samples.ensure(connection, around: today)
                return try Partitions.filterIDs(connection)
            }
        }
        return done
    }

    /// Rolls back the latest migration, or all, and returns their versions.
    package func down(_ connection: PostgresConnection, all: Bool = false) async throws(MigrationError) -> [String] {
        var done: [String] = []
        repeat {
            guard let migration = try await step(connection, .down).first else { break }
            done.append(migration.version)
        } while all
        return done
    }

    /// Lists the steps known to this binary or to the database, oldest first.
    package func status(_ connection: PostgresConnection) async throws(MigrationError) -> [Status] {
        let applied = try await read(connection)
        var list = migrations.map { migration in
            Status(
                version: migration.version,
                name: migration.name,
                appliedAt: applied.first { $0.version == migration.version }?.appliedAt
            )
        }
        for row in applied where !migrations.contains(where: { $0.version == row.version }) {
            list.append(Status(version: row.version, name: "", appliedAt: row.appliedAt))
        }
        return list.sorted { $0.version < $1.version }
    }

    /// Compares the database's schema with this binary's.
    package func state(_ connection: PostgresConnection) async throws(MigrationError) -> SchemaState {
        compare(try await read(connection)).state
    }

    // MARK: Inside

    /// How applied migrations compare with ours; `isAdoptable` says that they are all of a schema from before 0.1.0.
    private func compare(_ applied: [Applied]) -> (state: SchemaState, isAdoptable: Bool) {
        guard let last = applied.last else { return (.missing, false) }
        let isOurs = applied.allSatisfy { row in
            migrations.contains { $0.version == row.version && $0.checksum == row.checksum }
        }
        switch isOurs ? .none : UnreleasedSchema.part(of: applied) {
        case .all: return (.older(pending: migrations.map(\.version)), true)
        case .some: return (.unreleased(last: last.version), false)
        case .none: break
        }
        let unknown = applied.filter { row in !migrations.contains { $0.version == row.version } }
        guard unknown.isEmpty else { return (.newer(unknown: unknown.map(\.version)), false) }
        for row in applied
        where migrations.contains(where: { $0.version == row.version && $0.checksum != row.checksum }) {
            return (.edited(version: row.version), false)
        }
        let pending = migrations.filter { migration in !applied.contains { $0.version == migration.version } }
        return (pending.isEmpty ? .current : .older(pending: pending.map(\.version)), false)
    }

    private enum Direction: Sendable {
        case up
        case down
    }

    private enum Next {
        case nothing
        case step(Migration)
        /// Records the steps whose objects a schema from before 0.1.0 has.
        case adopt
        /// The state allows no step.
        case refuse(SchemaState)
    }

    private func next(_ direction: Direction, _ applied: [Applied]) -> Next {
        let (state, isAdoptable) = compare(applied)
        switch (state, direction) {
        case (.newer, _), (.edited, _), (.unreleased, _): return .refuse(state)
        case (.current, .up), (.missing, .down): return .nothing
        case (.missing, .up): return migrations.first.map(Next.step) ?? .nothing
        case (.older(let pending), .up):
            return isAdoptable ? .adopt : migrations.first { $0.version == pending.first }.map(Next.step) ?? .nothing
        case (.current, .down), (.older, .down):
            // The steps back of an adoptable schema are not here.
            let last = migrations.last { migration in applied.contains { $0.version == migration.version } }
            return isAdoptable ? .refuse(state) : last.map(Next.step) ?? .refuse(state)
        }
    }

    /// Runs the next step, or adopts a schema, in one transaction, under the lock; returns what was applied or rolled back.
    private func step(
        _ connection: PostgresConnection,
        _ direction: Direction
    ) async throws(MigrationError) -> [Migration] {
        try await connection.run { connection throws(MigrationError) in
            var (running, refusal): (String?, SchemaState?)
            do throws(PostgresError) {
                return try connection.transaction { connection throws(PostgresError) in
                    // Another migrator may take its time; the limit begins after that.
                    try connection.run(MigrationStatements.lock)
                    try connection.run(MigrationStatements.limitLocks(milliseconds: lockTimeout))
                    try connection.script(MigrationStatements.bootstrap)
                    switch next(direction, try applied(connection)) {
                    case .nothing: return []
                    case .adopt: return try adopt(connection)
                    case .refuse(let state):
                        refusal = state
                        // Rolls back.
                        throw PostgresError(.other, "the schema can't be migrated")
                    case .step(let step):
                        running = step.version
                        try connection.script(direction == .up ? step.up : step.down)
                        try record(direction, step, connection)
                        return [step]
                    }
                }
            } catch {
                throw refusal.map { .schema($0) } ?? .database(error, version: running)
            }
        }
    }

    /// Records the migrations whose objects a schema from before 0.1.0 has, and renews its functions.
    private func adopt(_ connection: isolated PostgresConnection) throws(PostgresError) -> [Migration] {
        let steps = migrations.filter { $0.version <= UnreleasedSchema.lastHeld }
        try connection.script(UnreleasedSchema.leave)
        try connection.script(UnreleasedSchema.functions(of: steps))
        for step in steps { try record(.up, step, connection) }
        return steps
    }

    private func record(
        _ direction: Direction,
        _ migration: Migration,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) {
        let isUp = direction == .up
        try connection.run(isUp ? MigrationStatements.record(migration) : MigrationStatements.erase(migration))
        guard let author, try connection.run(AuditStatements.exists).value(Bool.self) else { return }
        let subject = "migration \(migration.version) \(migration.name)"
        try AuditLog.record(connection, isUp ? .migrateUp : .migrateDown, subject, by: author)
    }

    private func read(_ connection: PostgresConnection) async throws(MigrationError) -> [Applied] {
        try await MigrationError.catching(over: connection) { connection throws(PostgresError) in
            let exists: Bool = try connection.run(MigrationStatements.exists).value()
            return exists ? try applied(connection) : []
        }
    }

    private func applied(_ connection: isolated PostgresConnection) throws(PostgresError) -> [Applied] {
        try connection.run(MigrationStatements.list).rows(Applied.init)
    }
}
