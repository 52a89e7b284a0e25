import Foundation
import Postgres
import Testing

/// The statement catalogs of every module.
private let catalogs =
    messageStoreCatalogs + handlersCatalogs + queryingCatalogs + replayingCatalogs + consoleCatalogs + cliCatalogs
    + diagnosisCatalogs + compareCatalogs

@Suite("statements: PostgreSQL accepts every text, and every text is where this is tested")
struct StatementTests {
    @Test("every statement can be prepared with its declared parameter types on the migrated schema")
    func everyStatementIsPrepared() async throws {
        let database = try await Database()
        let connection = try await PostgresConnection.open(PostgresSettings(url: database.url))
        // What PostgreSQL refuses is found, so that the test can fail.
        let wrong = StatementSample("wrong", "SELECT \("text") + 1 FROM upstream.messages")
        #expect(await failure(wrong, connection) != nil)
        var count = 0
        for catalog in catalogs {
            for sample in catalog.samples {
                let error = await failure(sample, connection)
                #expect(error == nil, "\(catalog).\(sample.name): \(error ?? "")")
                count += 1
            }
        }
        #expect(count > 40)
        await connection.close()
    }

    @Test("every declaration of a catalog is among its samples, and every catalog is tested")
    func everyDeclarationHasASample() throws {
        let known = Dictionary(uniqueKeysWithValues: catalogs.map { ("\($0)", Set($0.samples.map(\.declaration))) })
        var found: Set<String> = []
        for file in try sourceFiles() {
            for (type, names) in file.declarations {
                found.insert(type)
                let samples = try #require(known[type], "\(file.path): \(type) is in no module's list of catalogs")
                #expect(names.subtracting(samples).isEmpty, "\(file.path): without a sample in \(type)")
            }
        }
        #expect(Set(known.keys).isSubset(of: found), "catalogs that are in no file")
    }

    @Test("SQL text stands in catalogs alone")
    func statementsStandInCatalogs() throws {
        var excused = Set(exceptions.keys)
        for file in try sourceFiles() {
            let lines = file.linesWithSQL
            guard !lines.isEmpty else { continue }
            if let exception = exceptions.keys.first(where: { file.path.hasPrefix($0) }) {
                excused.remove(exception)
            } else {
                Issue.record("\(file.path): SQL text in lines \(lines)")
            }
        }
        #expect(excused.isEmpty, "exceptions for nothing")
    }

    /// Files that hold SQL text of their own, and why they may.
    private let exceptions = [
        "Postgres/": "the driver's own: sessions, transactions, and what a backend waits for; no table of ours",
        "LocalDatabase/": "runs PostgreSQL's programs, not statements",
        "MessageStore/Inspection/WorkerRight.swift":
            "privileges by their names, as roles.sql grants them; no statement",
        "MessageStore/UnreleasedSchema.swift": "a script of several statements, which none prepares",
        "Console/Pages/": "builds the queries of addresses, not of the database",
        "Console/Parts/": "builds the queries of addresses, not of the database",
    ]

    /// Why PostgreSQL refuses a statement; nil where it takes it.
    private func failure(_ sample: StatementSample, _ connection: PostgresConnection) async -> String? {
        do throws(PostgresError) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script("BEGIN")
                do throws(PostgresError) {
                    if let preceding = sample.preceding { try connection.script(preceding) }
                    try connection.script(try preparation(of: sample, connection))
                    try connection.script("ROLLBACK; DEALLOCATE ALL")
                } catch {
                    if connection.isInTransaction { try connection.script("ROLLBACK; DEALLOCATE ALL") }
                    throw error
                }
            }
            return nil
        } catch {
            return "\(error)"
        }
    }

    /// A script that prepares the statement, or, where PREPARE does not take its kind, runs it.
    private func preparation(
        of sample: StatementSample,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> String {
        let first = sample.text.prefix { !$0.isWhitespace }
        if first == "VACUUM" {
            // Refused in a transaction, and in a script of several statements; it changes nothing that anybody sees.
            try connection.script("ROLLBACK")
            return sample.text
        }
        guard ["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "(SELECT"].contains(String(first))
        else { return sample.text }
        var types: [String] = []
        for oid in sample.types {
            types.append(try connection.run("SELECT \(Int(oid))::oid::regtype::text").value(String.self))
        }
        return "PREPARE sample\(types.isEmpty ? "" : " (\(types.joined(separator: ", ")))") AS \(sample.text)"
    }
}

extension StatementSample {
    /// The name of the declaration.
    fileprivate var declaration: String { String(name.prefix { $0 != "," }) }
}

/// A file of the sources.
private struct SourceFile {
    /// Under `Sources` or `Benchmarks`.
    var path: String
    var text: String

    /// The lines outside of catalogs where a literal begins as a statement does, or a statement's text is written where
    /// it is run.
    var linesWithSQL: [Int] {
        let statement =
            #/
            "\s*
            (\(?SELECT|WITH|INSERT\sINTO|UPDATE|DELETE\sFROM|MERGE\sINTO|LOCK\sTABLE|SET\sLOCAL
            |LISTEN|VACUUM(?=\s\()|TRUNCATE|COPY)\s
            /#
        let call = /\.(query|execute|run|script)\(\s*"(?!(BEGIN|COMMIT|ROLLBACK)")/
        let inside = text.ranges(of: Self.catalog)
        let places = [text.ranges(of: statement), text.ranges(of: call)].joined().map(\.lowerBound)
            .filter { place in !inside.contains { $0.contains(place) } }
        return Set(places.map { text[..<$0].count { $0.isNewline } + 1 }).sorted()
    }

    /// An enum of statements, or an extension of one, from its first line to its closing brace.
    private static var catalog: Regex<Substring> {
        #/(?ms)^(?:package )?(?:enum|extension) \w+Statements\b[^\n]*\{$.*?^}/#
    }

    /// By catalog, the names of its statements that are not private.
    var declarations: [String: Set<String>] {
        var found: [String: Set<String>] = [:]
        var type: String?
        let opening = /^(?:package )?(?:enum|extension) (\w+Statements)\b/
        let member =
            #/^ +(?:package )?static (?:let|var|func) `?(\w+)`?.*(?::|->) (?:SQL|(?:Prepared|Postgres)?Statement)\b/#
        let made = /^ +(?:package )?static let `?(\w+)`? = (?:SQL|\w+Statement|[Ss]ettling|calling|leasing)\b/
        for line in text.ranges(of: Self.catalog).flatMap({ Self.joinedSignatures(text[$0]) }) {
            if let match = line.firstMatch(of: opening) {
                type = String(match.1)
            } else if let type, let name = line.firstMatch(of: member)?.1 ?? line.firstMatch(of: made)?.1 {
                found[type, default: []].insert(String(name))
            }
        }
        return found
    }

    /// The lines of a text, with a function's signature on one.
    private static func joinedSignatures(_ text: Substring) -> [Substring] {
        var lines: [Substring] = []
        var open: Substring?
        for line in text.split(separator: "\n", omittingEmptySubsequences: true) {
            if let begun = open {
                let whole = begun + line.drop { $0 == " " }
                if line.contains("{") { lines.append(whole) }
                open = line.contains("{") ? nil : whole
            } else if line.contains(#/^ +(package )?static func\b/#), !line.contains("{") {
                open = line
            } else {
                lines.append(line)
            }
        }
        return lines
    }
}

private func sourceFiles() throws -> [SourceFile] {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    return try ["Sources", "Benchmarks"].map { root.appending(path: $0) }.flatMap { folder in
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        return try names.filter { $0.hasSuffix(".swift") }.sorted().map {
            SourceFile(path: $0, text: try String(contentsOf: folder.appending(path: $0), encoding: .utf8))
        }
    }
}
