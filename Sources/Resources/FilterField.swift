package import Postgres
package import Querying
package import UpstreamKit
package import Vocabulary

/// What a list can be narrowed by under one name: an option, a parameter, a member of a body and a field of a form.
package struct FilterField<Filter>: Sendable {
    /// What a value is, for descriptions and forms.
    package enum Kind: Sendable, Equatable {
        case text
        case uuid
        case time
        case clause
        case words([String])
    }

    /// The parameter and the member; the option has hyphens for its underscores.
    package let name: StaticString
    package let about: StaticString
    package let label: StaticString
    /// What a form shows where nothing is written.
    package let hint: StaticString
    package let kind: Kind
    package let isRepeatable: Bool
    let read: Read

    package typealias Path<Value> = any WritableKeyPath<Filter, Value> & Sendable
    /// Takes what is written, the present time, and what who asks may see.
    package typealias Read = @Sendable (inout Filter, [String], Timestamp, Sight) throws(FilterMistake) -> Void

    private init(
        _ name: StaticString,
        _ label: StaticString,
        _ about: StaticString,
        _ hint: StaticString,
        _ kind: Kind = .text,
        isRepeatable: Bool = false,
        _ read: @escaping Read
    ) {
        (self.name, self.label, self.about, self.hint) = (name, label, about, hint)
        (self.kind, self.isRepeatable, self.read) = (kind, isRepeatable, read)
    }

    /// One value, of which `parse` makes what the filter holds.
    private static func one<Value>(
        _ name: StaticString,
        _ path: Path<Value?>,
        _ label: StaticString,
        _ about: StaticString,
        _ hint: StaticString,
        _ kind: Kind = .text,
        _ parse: @escaping @Sendable (String, Timestamp, Sight) throws(FilterMistake) -> Value
    ) -> FilterField {
        FilterField(name, label, about, hint, kind) { filter, texts, now, sight throws(FilterMistake) in
            filter[keyPath: path] = try texts.first.map { text throws(FilterMistake) in try parse(text, now, sight) }
        }
    }

    /// A text that is compared as it is.
    package static func text(
        _ name: StaticString,
        _ path: Path<String?>,
        _ label: StaticString,
        _ about: StaticString,
        _ hint: StaticString = ""
    ) -> FilterField {
        one(name, path, label, about, hint) { text, _, _ in text }
    }

    package static func texts(
        _ name: StaticString,
        _ path: Path<[String]>,
        _ label: StaticString,
        _ about: StaticString,
        _ hint: StaticString
    ) -> FilterField {
        FilterField(name, label, about, hint, isRepeatable: true) { filter, texts, _, _ in filter[keyPath: path] = texts
        }
    }

    package static func word<Word: RawRepresentable<String> & CaseIterable>(
        _ name: StaticString,
        _: Word.Type,
        _ path: Path<String?>,
        _ label: StaticString,
        _ about: StaticString
    ) -> FilterField {
        let words = Word.allCases.map(\.rawValue)
        return FilterField(name, label, about, "", .words(words)) { filter, texts, _, _ throws(FilterMistake) in
            for text in texts where !words.contains(text) {
                let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean '\($0)'?" } ?? ""
                throw .wrong(name, "takes one of \(words.joined(separator: ", "))\(hint)")
            }
            filter[keyPath: path] = texts.first
        }
    }

    /// An error group; where payloads are hidden only the project's own may be named.
    package static func group(_ path: Path<String?>, _ about: StaticString) -> FilterField {
        one("group", path, "Error group", about, "webhook status 503") { text, _, sight throws(FilterMistake) in
            guard sight.mayName(group: text) else { throw .groupHidden }
            return text
        }
    }

    package static func message(_ path: Path<MessageKey?>) -> FilterField {
        let takes = "takes a message_key: 8-4-4-4-12 hex digits"
        return key("message_key", path, "Message key", "Only one message, by its message_key.", takes, MessageKey.init)
    }

    /// Any of some messages.
    package static func messages(_ path: Path<[MessageKey]>) -> FilterField {
        let about: StaticString = "Only these messages, by their message_key; given several times, any of them."
        return FilterField("message_key", "Message key", about, "00000000-…", .uuid, isRepeatable: true) {
            filter,
            texts,
            _,
            _ throws(FilterMistake) in
            filter[keyPath: path] = try texts.map { text throws(FilterMistake) in
                guard let key = MessageKey(text) else {
                    throw .wrong("message_key", "takes a message_key: 8-4-4-4-12 hex digits")
                }
                return key
            }
        }
    }

    package static func device(_ path: Path<DeviceKey?>) -> FilterField {
        let takes = "takes a device_key, 8-4-4-4-12 hex digits, never a token"
        return key("device", path, "Device key", "Only this device, by its device_key.", takes, DeviceKey.init)
    }

    private static func key<Key>(
        _ name: StaticString,
        _ path: Path<Key?>,
        _ label: StaticString,
        _ about: StaticString,
        _ takes: String,
        _ parse: @escaping @Sendable (String) -> Key?
    ) -> FilterField {
        one(name, path, label, about, "00000000-…", .uuid) { text, _, _ throws(FilterMistake) in
            guard let key = parse(text) else { throw .wrong(name, takes) }
            return key
        }
    }

    /// The first moment: an age, a day or a moment.
    package static func since(_ label: StaticString, _ about: StaticString) -> FilterField where Filter: Filtered {
        time("since", \.since, label, about, "2h, yesterday, 2026-01-31")
    }

    /// The end, likewise.
    package static func until(_ label: StaticString, _ about: StaticString) -> FilterField where Filter: Filtered {
        time("until", \.until, label, about, "now")
    }

    private static func time(
        _ name: StaticString,
        _ path: Path<Timestamp?>,
        _ label: StaticString,
        _ about: StaticString,
        _ hint: StaticString
    ) -> FilterField {
        one(name, path, label, about, hint, .time) { text, now, _ throws(FilterMistake) in
            do throws(FilterError) {
                return try TimeExpression.parse(text, now: now)
            } catch {
                let examples = "for example 2h, 30d, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z"
                throw .wrong(name, "\(error) — \(examples)")
            }
        }
    }

    package static func clauses(
        _ path: Path<[WhereClause]>,
        sees: Path<Bool>
    ) -> FilterField {
        let about: StaticString = """
            Only messages whose data matches: data.path=value, also != < <= > >= ~ (regular expression) and 'data.path exists'; \
            given several times, all must match.
            """
        return FilterField("where", "Where", about, "data.total>100", .clause, isRepeatable: true) {
            filter,
            texts,
            _,
            sight throws(FilterMistake) in
            guard texts.isEmpty || sight.payloads else { throw .payloadsHidden }
            filter[keyPath: sees] = sight.tokens
            filter[keyPath: path] = try texts.map { text throws(FilterMistake) in
                do throws(FilterError) {
                    return try WhereClause(parsing: text)
                } catch {
                    throw .wrong("where", error.description)
                }
            }
            guard sight.tokens || !filter[keyPath: path].contains(where: \.isOnToken) else { throw .clauseOnToken }
        }
    }
}

/// What is wrong with a value that somebody narrows by.
package enum FilterMistake: Error, Sendable {
    /// The value of a name, and why.
    case wrong(StaticString, String)
    /// `since` is not before `until`.
    case order
    /// It looks into payloads, which are hidden.
    case payloadsHidden
    /// It names a group that is made from a handler's words, where these are hidden.
    case groupHidden
    /// It asks for a registration token that a payload holds, by somebody who may not see it.
    case clauseOnToken

    /// What is wrong, beside the field.
    package var text: String {
        switch self {
        case .wrong(_, let text): text
        case .order: "is not before 'until'"
        case .payloadsHidden: "payloads are hidden here, so nothing looks into them (console.payloads)"
        case .groupHidden: "this group is made from what a handler said, which is hidden"
        case .clauseOnToken: "\(TokenMask.member) is a registration token: that takes the right 'reveal'"
        }
    }

    package var name: String {
        switch self {
        case .wrong(let name, _): name.description
        case .order: "since"
        case .payloadsHidden, .clauseOnToken: "where"
        case .groupHidden: "group"
        }
    }
}

/// A filter that people write by its fields.
package protocol Filtered: Sendable {
    init()
    /// What it can be narrowed by, in the order of forms and descriptions.
    static var filters: [FilterField<Self>] { get }
    var since: Timestamp? { get set }
    var until: Timestamp? { get set }
}

/// What somebody asks for by the fields of a filter, as it is written.
package struct Asked<Filter: Filtered>: Sendable {
    /// What is written, by the fields' names.
    package let values: [String: [String]]
    private let sight: Sight
    /// The filter by our own clock.
    package private(set) var filter = Filter()
    /// What is wrong with each field, where several are to be told at once.
    package private(set) var mistakes: [FilterMistake] = []

    /// Reads values, so that mistakes are told without a database.
    ///
    /// - Parameters:
    ///   - values: What is written; other names are passed over.
    ///   - sight: What who asks may see, and so may look for.
    /// - Throws: The first mistake.
    package init(_ values: [String: [String]], sight: Sight) throws(FilterMistake) {
        self.init(lenient: values, sight: sight)
        if let mistake = mistakes.first { throw mistake }
    }

    /// The same where mistakes are shown beside the fields.
    package init(lenient values: [String: [String]], sight: Sight) {
        let names = Set(Filter.filters.map(\.name.description))
        self.values = values.filter { names.contains($0.key) && !$0.value.isEmpty }
        self.sight = sight
        read(now: .now)
    }

    package var isEmpty: Bool { values.isEmpty }

    package subscript(_ field: FilterField<Filter>) -> [String] { values[field.name.description] ?? [] }

    /// The filter with ages counted back from a time.
    package func judged(now: Timestamp) throws(FilterMistake) -> Filter {
        var asked = self
        asked.read(now: now)
        if let mistake = asked.mistakes.first { throw mistake }
        return asked.filter
    }

    /// The filter with ages counted back from the database's clock.
    ///
    /// - Throws: ``FilterMistake`` and `PostgresError`
    package func judged(_ connection: PostgresConnection) async throws -> Filter {
        guard values["since"] != nil || values["until"] != nil else { return filter }
        return try judged(now: try await connection.databaseTime())
    }

    private mutating func read(now: Timestamp) {
        (filter, mistakes) = (Filter(), [])
        for field in Filter.filters {
            do throws(FilterMistake) {
                try field.read(&filter, self[field], now, sight)
            } catch {
                mistakes.append(error)
            }
        }
        if let since = filter.since, let until = filter.until, since >= until { mistakes.append(.order) }
    }
}
