import Querying

/// What a field of a resource is called where it is shown, who may see it, and how a row is shown without it.
struct ResourceField<Row>: Sendable {
    /// The member's name in answers of the API.
    let name: String
    /// Who may see it.
    let secrecy: Secrecy
    /// Leaves in a row what may be shown; nil for what is shown as it is, or is written by ``MessageLines``, which asks itself.
    let redact: (@Sendable (inout Row, Sight, [String]) -> Void)?
}

/// The fields of a resource.
struct ResourceFields<Row>: Sendable {
    /// In no order.
    let all: [ResourceField<Row>]

    private init(_ all: [ResourceField<Row>]) { self.all = all }

    /// All of these.
    static func of(_ parts: ResourceFields<Row>...) -> ResourceFields<Row> { ResourceFields(parts.flatMap(\.all)) }

    /// Fields that everybody sees who may look.
    static func plain(_ names: String...) -> ResourceFields<Row> { named(names, .plain) }

    /// What devices sent, where the code that writes it asks.
    static func payload(_ names: String...) -> ResourceFields<Row> { named(names, .payload) }

    /// Registration tokens, where the code that writes them asks.
    static func secret(_ names: String...) -> ResourceFields<Row> { named(names, .secret) }

    private static func named(_ names: [String], _ secrecy: Secrecy) -> ResourceFields<Row> {
        ResourceFields(names.map { ResourceField(name: $0, secrecy: secrecy, redact: nil) })
    }

    /// What a handler said of a message.
    static func words(_ name: String, _ path: any WritableKeyPath<Row, String> & Sendable) -> ResourceFields<Row> {
        redacted(name) { row, sight, tokens in row[keyPath: path] = sight.words(row[keyPath: path], tokens) }
    }

    /// What a handler said of a message, if anything.
    static func words(_ name: String, _ path: any WritableKeyPath<Row, String?> & Sendable) -> ResourceFields<Row> {
        redacted(name) { row, sight, tokens in
            row[keyPath: path] = row[keyPath: path].map { sight.words($0, tokens) }
        }
    }

    /// A group of failures.
    static func group(_ name: String, _ path: any WritableKeyPath<Row, String> & Sendable) -> ResourceFields<Row> {
        redacted(name) { row, sight, tokens in row[keyPath: path] = sight.group(row[keyPath: path], tokens) }
    }

    /// A group of failures, if there was one.
    static func group(_ name: String, _ path: any WritableKeyPath<Row, String?> & Sendable) -> ResourceFields<Row> {
        redacted(name) { row, sight, tokens in
            row[keyPath: path] = row[keyPath: path].map { sight.group($0, tokens) }
        }
    }

    /// A field of the kind payload that a row has in a form of its own.
    static func redacted(
        _ name: String,
        _ redact: @escaping @Sendable (inout Row, Sight, [String]) -> Void
    ) -> ResourceFields<Row> { ResourceFields([ResourceField(name: name, secrecy: .payload, redact: redact)]) }
}

/// A row that is shown: its fields, each declared with who may see it.
protocol ShownResource {
    /// The name of its schema in the API's description.
    static var schema: String { get }
    /// Its fields.
    static var fields: ResourceFields<Self> { get }
}

extension ShownResource {
    /// The row as somebody may see it: the only way from a row to an answer or a page.
    ///
    /// - Parameters:
    ///   - sight: What they may see.
    ///   - tokens: The message's tokens, which are masked in what handlers said of it.
    /// - Returns: The row with every field redacted that is not theirs to see.
    func shown(to sight: Sight, knowing tokens: [String] = []) -> Self {
        var row = self
        for field in Self.fields.all { field.redact?(&row, sight, tokens) }
        return row
    }
}

/// A resource as it is declared, whatever its rows are.
struct Resource: Sendable {
    /// The name of its schema in the API's description.
    let schema: String
    /// Who may see each of its members.
    let members: [String: Secrecy]

    init<Row: ShownResource>(_: Row.Type) {
        self.init(Row.schema, Row.fields)
    }

    /// A resource whose members everybody sees.
    init(plain schema: String, _ names: String...) {
        self.schema = schema
        members = Dictionary(names.map { ($0, .plain) }) { first, _ in first }
    }

    init<Row>(_ schema: String, _ fields: ResourceFields<Row>) {
        self.schema = schema
        members = Dictionary(fields.all.map { ($0.name, $0.secrecy) }) { first, _ in first }
    }
}
