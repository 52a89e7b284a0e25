/// The statements of one subject, which a test compares with the migrated schema.
///
/// Statements stand in files named `…Statements.swift` or `…Statements+Aspect.swift`, as static members of an enum that
/// conforms. Each module lists its catalogs in one place, and a test prepares every sample on a real server.
package protocol StatementCatalog {
    /// Every statement of the catalog that is not private, under the name of its declaration.
    ///
    /// A function that returns `SQL` has a sample for each form of its text: `list`, `list, by handler`.
    static var samples: [StatementSample] { get }
}

/// A statement's text and the types of its parameters.
package struct StatementSample: Sendable {
    /// The declaration's name; what follows a comma tells forms of one declaration apart.
    package let name: String
    /// The text, with `$1`, `$2` … for the parameters.
    package let text: String
    /// The object ids of the parameters' types, in the order of their numbers.
    package let types: [UInt32]

    /// What has to be run before it in its transaction, for example to create its temporary table.
    package private(set) var preceding: String?

    /// A statement that is sent once.
    ///
    /// - Parameters:
    ///   - name: The declaration's name.
    ///   - sql: The statement.
    ///   - preceding: What has to be run before it in its transaction; without parameters.
    package init(_ name: String, _ sql: SQL, after preceding: SQL? = nil) {
        self.name = name
        text = sql.text
        types = sql.types
        self.preceding = preceding?.text
    }

    /// A statement that is prepared, with typed parameters.
    package init<Parameters>(_ name: String, _ statement: PreparedStatement<Parameters>) {
        self.name = name
        text = statement.statement.sql
        types = statement.types
    }

    /// A statement that is prepared, with parameters encoded by hand.
    ///
    /// - Parameters:
    ///   - name: The declaration's name.
    ///   - statement: The statement.
    ///   - arrays: The types of the members of the arrays, which are its first parameters.
    ///   - types: The types of the parameters after them.
    package init(
        _ name: String,
        _ statement: PostgresStatement,
        arrays: [PostgresType] = [],
        _ types: [PostgresType] = []
    ) {
        self.name = name
        text = statement.sql
        self.types = arrays.map(\.arrayOID) + types.map(\.oid)
    }

    /// A text of fixed statements without parameters, for ``PostgresConnection/script(_:)``.
    package init(_ name: String, script: String) {
        self.name = name
        text = script
        types = []
    }
}
