package import Postgres

/// An index or trigger made by the migrations, with the statement that restores it.
package struct SchemaObject: Sendable, Hashable {
    package enum Kind: String, Sendable {
        case index
        case trigger
    }

    package let kind: Kind
    /// The table's name, in the schema `upstream`.
    package let table: String
    package let name: String
    /// The statement without its semicolon.
    package let statement: String

    /// The objects that this binary's migrations make; a test compares them with a migrated database.
    package static let all: [SchemaObject] = of(Migration.embedded)

    /// Collects the objects of migrations, in which every statement starts at a line's beginning and function bodies
    /// are indented.
    static func of(_ migrations: [Migration]) -> [SchemaObject] {
        var found: [SchemaObject] = []
        for migration in migrations {
            var table = ""
            var lines = migration.up.split(separator: "\n", omittingEmptySubsequences: false)[...]
            while let line = lines.popFirst() {
                let words = line.split(separator: " ")
                switch (words.first, words.dropFirst().first) {
                case ("CREATE", "TABLE"), ("ALTER", "TABLE"):
                    table = words.first { $0.hasPrefix(schema) }.map(bare) ?? ""
                case ("DROP", "TABLE"):
                    let dropped = Set(words.map(bare))
                    found.removeAll { dropped.contains($0.table) }
                case ("DROP", "INDEX"), ("DROP", "TRIGGER"):
                    let dropped = Set(words.map(bare))
                    found.removeAll { dropped.contains($0.name) }
                case ("CREATE", "INDEX"), ("CREATE", "UNIQUE"), ("CREATE", "TRIGGER"):
                    guard !line.hasPrefix(" ") else { continue }
                    var text = String(line)
                    while !text.hasSuffix(";"), let next = lines.popFirst() {
                        text += " " + next.drop { $0 == " " }
                    }
                    if let object = made(by: text) { found.append(object) }
                default:
                    if let object = constraint(line, of: table) { found.append(object) }
                }
            }
        }
        return found
    }

    private static let schema = "upstream."

    /// A name without its schema and what follows it.
    private static func bare(_ word: Substring) -> String {
        let name = word.hasPrefix(schema) ? word.dropFirst(schema.count) : word
        return String(name.prefix { $0 != ";" && $0 != "," && $0 != "(" })
    }

    private static func made(by text: String) -> SchemaObject? {
        let statement = (text.hasSuffix(";") ? String(text.dropLast()) : text)
            .replacing("IF NOT EXISTS ", with: "")
        let words = statement.split(separator: " ")
        guard let table = words.drop(while: { $0 != "ON" }).first(where: { $0.hasPrefix(schema) }) else { return nil }
        let kind: Kind = words[1] == "TRIGGER" ? .trigger : .index
        guard let name = words.drop(while: { $0 != "INDEX" && $0 != "TRIGGER" }).dropFirst().first else { return nil }
        return SchemaObject(kind: kind, table: bare(table), name: String(name), statement: statement)
    }

    /// The index behind `CONSTRAINT name PRIMARY KEY (…)` or `UNIQUE`.
    private static func constraint(_ line: Substring, of table: String) -> SchemaObject? {
        var words = line.split(separator: " ")
        if words.first == "ADD" { words.removeFirst() }
        guard words.count > 3, words[0] == "CONSTRAINT", ["PRIMARY", "UNIQUE"].contains(words[2]) else { return nil }
        let rule = words.dropFirst(2).joined(separator: " ")
        guard let end = rule.firstIndex(of: ")") else { return nil }
        return SchemaObject(
            kind: .index,
            table: table,
            name: String(words[1]),
            statement: "ALTER TABLE upstream.\(table) ADD CONSTRAINT \(words[1]) \(rule[...end])"
        )
    }

    /// The statement for a running system, without a semicolon: it builds an index without blocking writers, which is
    /// impossible on a partitioned table.
    package func statement(isPartitioned: Bool) -> String {
        guard kind == .index, !isPartitioned, statement.hasPrefix("CREATE"),
            let range = statement.ranges(of: "INDEX ").first
        else { return statement }
        return statement[..<range.lowerBound] + "INDEX CONCURRENTLY " + statement[range.upperBound...]
    }
}

/// Differences between the schema and what the migrations made.
package struct SchemaDrift: Sendable, Equatable {
    package var missing: [SchemaObject] = []
    package var disabled: [SchemaObject] = []
    /// The tables that have partitions.
    package var partitioned: Set<String> = []
    /// The default partition of `messages`; nil if there is none, as the migrations leave it.
    package var defaultPartition: String?

    /// Compares the schema with the migrations' objects.
    package static func ask(_ connection: PostgresConnection) async throws(PostgresError) -> SchemaDrift {
        let there: [(kind: String, table: String, name: String)] =
            try await connection.result(of: CheckStatements.objects).rows { ($0, $1, $2) }
        func names(_ kind: String) -> Set<[String]> {
            Set(there.filter { $0.kind == kind }.map { [$0.table, $0.name] })
        }
        let (indexes, triggers, off) = (names("index"), names("trigger"), names("disabled trigger"))
        var drift = SchemaDrift()
        for object in SchemaObject.all {
            let place = [object.table, object.name]
            switch object.kind {
            case .index where !indexes.contains(place): drift.missing.append(object)
            case .trigger where off.contains(place): drift.disabled.append(object)
            case .trigger where !triggers.contains(place): drift.missing.append(object)
            case .index, .trigger: break
            }
        }
        drift.partitioned = Set(there.filter { $0.kind == "partitioned" }.map(\.table))
        drift.defaultPartition = there.first { $0.kind == "default" && $0.table == "messages" }?.name
        return drift
    }
}
