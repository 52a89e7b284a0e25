import Postgres

/// The statements of one subject, which a test checks against the migrated schema.
///
/// Statements are static members of an enum named `…Statements`, in a file of their own or beneath their only user.
protocol StatementCatalog: SendableMetatype {
    /// Every non-private statement of the catalog, by the name of its declaration.
    ///
    /// A function that returns `SQL` has a sample for each form of its text: `list`, `list, by handler`.
    static var samples: [StatementSample] { get }
}

struct StatementSample: Sendable {
    /// The declaration's name; after a comma, which of its forms.
    let name: String
    let text: String
    /// The object ids of the parameters' types, in order.
    let types: [UInt32]

    /// What to run before it in its transaction, for example to create its temporary table.
    private(set) var preceding: String?

    /// A statement that is not prepared; `preceding`, without parameters, runs before it in its transaction.
    init(_ name: String, _ sql: SQL, after preceding: SQL? = nil) {
        self.name = name
        text = sql.text
        types = sql.types
        self.preceding = preceding?.text
    }

    init<Parameters>(_ name: String, _ statement: PreparedStatement<Parameters>) {
        self.name = name
        text = statement.statement.sql
        types = statement.types
    }

    /// A prepared statement with parameters encoded by hand: first arrays with these member types, then these types.
    init(
        _ name: String,
        _ statement: PostgresStatement,
        arrays: [PostgresType] = [],
        _ types: [PostgresType] = []
    ) {
        self.name = name
        text = statement.sql
        self.types = arrays.map(\.arrayOID) + types.map(\.oid)
    }

    /// A script for ``PostgresConnection/script(_:)``, without parameters.
    init(_ name: String, script: String) {
        self.name = name
        text = script
        types = []
    }
}
