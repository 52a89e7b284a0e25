import Vocabulary

/// A worker's handlers, with valid and unique names.
public struct HandlerRegistry: Sendable {
    /// The registrations, in the order of their addition.
    public private(set) var registrations: [HandlerRegistration] = []

    /// A registry without handlers.
    public init() {}

    /// A registry of these handlers.
    ///
    /// - Throws: ``RegistrationError`` for the first invalid one.
    public init(_ registrations: some Sequence<HandlerRegistration>) throws(RegistrationError) {
        for registration in registrations { try add(registration) }
    }

    /// Adds a handler.
    ///
    /// - Throws: ``RegistrationError`` if its name is taken or a value is out of range.
    public mutating func add(_ registration: HandlerRegistration) throws(RegistrationError) {
        try registration.validate()
        guard self[registration.name] == nil else {
            throw RegistrationError(.duplicateName, registration, "there is another handler of this name; rename one")
        }
        registrations.append(registration)
    }

    /// The handler of this name, or nil.
    public subscript(name: String) -> HandlerRegistration? {
        registrations.first { $0.name == name }
    }

    /// The handlers that want messages of this category.
    public func subscribed(to category: String) -> [HandlerRegistration] {
        registrations.filter { $0.categories.contains(category) }
    }
}

/// Why a handler could not be registered.
public struct RegistrationError: Error, Sendable, CustomStringConvertible {
    /// The invalid value.
    public enum Code: Sendable, Hashable, CaseIterable {
        /// The name is not 1 to 63 of `a-z 0-9 _ . -`, beginning with a letter or digit.
        case name
        /// Another handler has the name.
        case duplicateName
        /// There is no category, or one that no message can have (empty, over 255 bytes, or with a star inside).
        case categories
        /// Not 1 to 10,000.
        case concurrency
        /// A count below 1, or waits that are negative or of which `initial` exceeds `maximum`.
        case retry
        /// A count that is not 1 to 1,000,000, or a period that is not above zero.
        case rate
        /// A limit over all workers that is out of range, or limits nothing.
        case limit
        /// Zero or negative.
        case timeout
    }

    /// The invalid value.
    public var code: Code

    /// The handler's name.
    public var handler: String

    /// What is wrong and how to fix it.
    public var message: String

    init(_ code: Code, _ registration: HandlerRegistration, _ message: String) {
        self.code = code
        self.handler = registration.name
        self.message = message
    }

    /// The handler and the message.
    public var description: String { "handler \"\(handler)\": \(message)" }
}

extension HandlerRegistration {
    /// Checks each value against its range.
    ///
    /// - Throws: ``RegistrationError`` for the first that is out of range.
    public func validate() throws(RegistrationError) {
        guard Self.isValid(name: name) else {
            throw RegistrationError(.name, self, "the name must be \(Self.nameRule)")
        }
        let names = categories.names
        guard !names.isEmpty, names.allSatisfy(CategorySet.isValid(entry:)) else {
            throw RegistrationError(.categories, self, "name at least one category: \(CategorySet.entryRule)")
        }
        guard (1...10_000).contains(concurrency) else {
            throw RegistrationError(.concurrency, self, "concurrency must be 1 to 10000")
        }
        guard retry.maxAttempts >= 1, retry.initial >= .zero, retry.maximum >= retry.initial else {
            throw RegistrationError(.retry, self, "retry needs max_attempts of at least 1 and initial up to maximum")
        }
        guard Self.isValid(rate) else {
            throw RegistrationError(.rate, self, "rate must be 1 to 1000000 attempts in a time above zero")
        }
        if let limit {
            guard limit.concurrency != nil || limit.rate != nil, (1...10_000).contains(limit.concurrency ?? 1),
                Self.isValid(limit.rate)
            else {
                let rule = "a limit needs a concurrency of 1 to 10000, or a rate of 1 to 1000000 attempts"
                throw RegistrationError(.limit, self, rule)
            }
        }
        guard timeout > .zero else {
            throw RegistrationError(.timeout, self, "timeout must be above zero")
        }
    }

    private static func isValid(_ rate: HandlerRate?) -> Bool {
        rate.map { (1...1_000_000).contains($0.count) && $0.period > .zero } ?? true
    }

    /// The rule of ``isValid(name:)``, as the rest of a sentence.
    package static let nameRule = "1 to 63 of a-z 0-9 _ . - and begin with a letter or digit"

    /// Whether a text can be a handler's name: it becomes a metric label and a table key.
    package static func isValid(name: String) -> Bool {
        guard (1...63).contains(name.utf8.count), let first = name.utf8.first else { return false }
        return first.isLowercaseOrDigit && name.utf8.allSatisfy { $0.isLowercaseOrDigit || "_.-".utf8.contains($0) }
    }
}
