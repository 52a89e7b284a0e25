import Foundation
import IntegrationSupport
package import LocalDatabase
import MessageStore
package import Postgres

/// A test's own database, and a connection to look into it.
package struct TestDatabase: Sendable {
    /// How to connect.
    package let url: String
    /// The same as settings.
    package let settings: PostgresSettings
    /// A connection as the owner.
    package let admin: PostgresConnection

    /// Makes one.
    ///
    /// - Parameters:
    ///   - cluster: Where.
    ///   - migrated: Whether it has our schema.
    /// - Throws: What went wrong.
    package init(on cluster: LocalCluster, migrated: Bool = true) async throws {
        url = try await Self.create(on: cluster).url
        settings = try PostgresSettings(url: url)
        admin = try await PostgresConnection.open(settings)
        if migrated { _ = try await Migrator().up(admin) }
    }

    /// Makes an empty database.
    package static func create(
        on cluster: LocalCluster,
        tablespace: String = "pg_default"
    ) async throws -> (name: String, url: String) {
        let name = "t\(UInt64.random(in: 0...UInt64.max))"
        let root = try await PostgresConnection.open(PostgresSettings(url: cluster.url))
        try await root.run { connection throws(PostgresError) in
            try connection.script("CREATE DATABASE \(name) TABLESPACE \(tablespace)")
        }
        await root.close()
        return (name, cluster.url.replacingOccurrences(of: "/upstream?", with: "/\(name)?"))
    }

    /// Runs statements.
    package func script(_ sql: String) async throws {
        try await admin.run { connection throws(PostgresError) in try connection.script(sql) }
    }

    /// The first value of a query; nil without a row, and for null.
    package func integer(_ sql: String) async throws -> Int64? { try await first(sql, Int64?.self) ?? nil }

    /// The first value of a query; nil without a row, and for null.
    package func text(_ sql: String) async throws -> String? { try await first(sql, String?.self) ?? nil }

    /// The values of a query's one column.
    package func texts(_ sql: String) async throws -> [String] {
        try await admin.run { connection throws(PostgresError) in
            try connection.query(sql).map { row throws(PostgresError) in try row.next(String?.self) ?? "NULL" }
        }
    }

    /// Waits for a query to give true.
    package func waitUntil(_ sql: String) async throws {
        try await IntegrationSupport.waitUntil(sql) { try await first(sql, Bool.self) == true }
    }

    private func first<Value: SQLDecodable & Sendable>(_ sql: String, _ type: Value.Type) async throws -> Value? {
        try await admin.run { connection throws(PostgresError) in
            try connection.query(sql).first { row throws(PostgresError) in
                try row.next(type)
            }
        }
    }
}
