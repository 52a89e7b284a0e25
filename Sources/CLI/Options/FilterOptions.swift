import ArgumentParser
import ConfigurationKeys
import Foundation
import MessageStore
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// The options of a filter: one for each of its fields, named as it is with hyphens.
protocol FilterGroup: ParsableArguments {
    associatedtype Filter: Filtered

    /// The filter as it is written; `console` is where a token may be read.
    func asked(_ console: Terminal) throws(CommandFailure) -> Asked<Filter>
}

extension FilterGroup {
    /// What is written, by the fields' names; a former name of an option stands for the present one.
    var given: [String: [String]] {
        var given: [String: [String]] = [:]
        for child in Mirror(reflecting: self).children {
            let texts: [String]
            switch child.value {
            case let option as Option<String?>: texts = option.wrappedValue.map { [$0] } ?? []
            case let option as Option<[String]>: texts = option.wrappedValue
            default: continue
            }
            let name = (child.label ?? "").reduce(into: "") { name, character in
                if character.isUppercase { name += "_" }
                name += character.lowercased()
            }
            given[String(name.trimmingPrefix(#/_(former_)?/#)), default: []] += texts
        }
        return given
    }

    /// Throws a usage error if nothing narrows, without `--all`.
    func requireSome(all: Bool) throws(CommandFailure) {
        guard all || given.contains(where: { !$0.value.isEmpty }) else {
            throw CommandFailure(.usage, "give a filter (--handler, --group, --category, …), or --all")
        }
    }

    func asked(_ console: Terminal) throws(CommandFailure) -> Asked<Filter> { try asked() }

    /// The filter as it is written, so that mistakes are told without a database, whose clock judges its times.
    ///
    /// `others` is what else selects, by its options' names: its number is bounded as well.
    func asked(beside others: [String: [String]] = [:]) throws(CommandFailure) -> Asked<Filter> {
        let given = given
        let options = given.merging(others) { $1 }.map { ("--" + $0.key.replacing("_", with: "-"), $0.value) }
        if let excess = FilterBounds.excess(in: Dictionary(options) { $1 }) {
            throw CommandFailure(.usage, excess)
        }
        do throws(FilterMistake) {
            return try Asked(given, sight: Sight(tokens: true, payloads: true))
        } catch {
            throw CommandFailure(error)
        }
    }
}

extension CommandFailure {
    init(_ mistake: FilterMistake) {
        switch mistake {
        case .wrong(let name, let text):
            let way = name.description == "device" ? "; a token goes into a file: --from-token-file" : ""
            self.init(.usage, "--\(name.description.replacing("_", with: "-")): \(text)\(way)")
        case .order: self.init(.usage, "--since must be before --until")
        case .payloadsHidden, .groupHidden, .clauseOnToken: self.init(.internalError, "\(mistake)")
        }
    }
}

extension ArgumentHelp {
    static func filter<Filter: Filtered>(_ name: String, of _: Filter.Type) -> ArgumentHelp {
        guard let field = Filter.filters.first(where: { $0.name.description == name }) else { return "" }
        let words: String =
            if case .words(let words) = field.kind { " One of: \(words.joined(separator: ", "))." } else { "" }
        return ArgumentHelp("\(field.about)\(words)", valueName: field.valueName)
    }
}

extension FilterField {
    fileprivate var valueName: String? {
        switch kind {
        case .uuid: "key"
        case .time: "time"
        case .clause: "clause"
        case .text where name.description == "message_id": "id"
        case .text, .words: nil
        }
    }
}

/// Which messages: the options that every command over stored messages shares.
struct FilterOptions: FilterGroup {
    typealias Filter = MessageFilter

    @Option(help: .filter("category", of: Filter.self)) var category: [String] = []
    @Option(help: .filter("sender", of: Filter.self)) var sender: String?
    @Option(help: .filter("device", of: Filter.self)) var device: String?
    @OptionGroup private var token: TokenFileOptions
    @Option(help: .filter("message_id", of: Filter.self)) var messageId: String?
    @Option(help: .filter("message_key", of: Filter.self)) var messageKey: String?
    @Option(help: .filter("since", of: Filter.self)) var since: String?
    @Option(help: .filter("until", of: Filter.self)) var until: String?
    @Option(help: .filter("where", of: Filter.self)) var `where`: [String] = []

    func asked(_ console: Terminal) throws(CommandFailure) -> Asked<Filter> { try asked(console, handlers: []) }

    /// The filter as it is written, with the device whose token a file holds.
    ///
    /// `handlers` is what else selects: the option `--handler`.
    func asked(_ console: Terminal, handlers: [String]) throws(CommandFailure) -> Asked<Filter> {
        guard let file = token.file else { return try asked(beside: ["handler": handlers]) }
        guard device == nil else {
            throw CommandFailure(.usage, "--device and --from-token-file both name a device: give one of them")
        }
        var options = self
        options.device = DeviceKey(of: try TokenFile.read(file, stdin: console.input.descriptor)).description
        return try options.asked(beside: ["handler": handlers])
    }
}

/// A device by a file with its token, so that this stands in no argument.
struct TokenFileOptions: ParsableArguments {
    @Option(
        help: .value(
            "file",
            "Only the device whose registration token this file holds; - reads stdin. Tokens are never given as arguments."
        ),
        completion: .file()
    )
    var fromTokenFile: String?
    @Option(help: .unlisted("What `forget` calls it.")) var tokenFile: String?

    var file: String? { fromTokenFile ?? tokenFile }
}

/// Which quarantined stanzas: the options that the commands share.
struct QuarantineFilter: FilterGroup {
    typealias Filter = QuarantineQuery

    @Option(help: .filter("sender", of: Filter.self)) var sender: String?
    @Option(help: .filter("reason", of: Filter.self)) var reason: String?
    @Option(help: .filter("message_id", of: Filter.self)) var messageId: String?
    @Option(help: .filter("since", of: Filter.self)) var since: String?
    @Option(help: .filter("until", of: Filter.self)) var until: String?
    @Option(help: .filter("state", of: Filter.self)) var state: String?
}

/// Which dead letters or waiting deliveries: the options that the commands share.
struct HandlingOptions<Filter: Filtered>: FilterGroup {
    @Option(help: .filter("handler", of: Filter.self)) var handler: String?
    @Option(help: .filter("group", of: Filter.self)) var group: String?
    @Option(help: .filter("category", of: Filter.self)) var category: String?
    @Option(help: .filter("message_key", of: Filter.self)) var messageKey: String?
    @Option(help: .filter("since", of: Filter.self)) var since: String?
    @Option(help: .filter("until", of: Filter.self)) var until: String?
    @Option(name: .customLong("message"), help: .unlisted("--message-key")) var formerMessageKey: String?
    @Option(name: .customLong("before"), help: .unlisted("--until")) var formerUntil: String?
    @Option(name: .customLong("error-group"), help: .unlisted("--group")) var formerGroup: String?
}

typealias DeadFilter = HandlingOptions<DeadLetterFilter>
typealias DeliveriesFilter = HandlingOptions<WaitingFilter>

enum TokenFile {
    /// Reads the token; `-` is `stdin`.
    static func read(_ path: String, stdin: Int32) throws(CommandFailure) -> RegistrationToken {
        let lines = path == "-" ? try lines(of: stdin) : try lines(of: path)
        guard let bytes = lines.first, lines.count == 1 else {
            let what = lines.isEmpty ? "is empty" : "has more than one line"
            throw CommandFailure(.badData, "'\(path)' \(what): it must contain one registration token")
        }
        guard bytes.count <= 4_096, let token = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(
                .badData,
                "'\(path)' is not a registration token: that is UTF-8 text of 4,096 bytes at most"
            )
        }
        return RegistrationToken(token)
    }

    private static func lines(of path: String) throws(CommandFailure) -> [[UInt8]] {
        do {
            return try SecretFile(path: path).lines(isGuarded: false)
        } catch {
            // Too large is bad data; what can't be read is no input.
            let isUnread = error.fault.isEmpty && error.number != EFBIG
            throw CommandFailure(isUnread ? .noInput : .badData, error.message)
        }
    }

    /// The lines of an open file, which may be a socket, as under ssh: it has no path to open.
    private static func lines(of stdin: Int32) throws(CommandFailure) -> [[UInt8]] {
        do {
            let bytes = try FileHandle(fileDescriptor: stdin, closeOnDealloc: false).read(upToCount: 1 << 16)
            return bytes.map { SecretFile.lines(in: Array($0)) } ?? []
        } catch {
            throw CommandFailure(.noInput, "can't read the token from stdin: \(error)")
        }
    }
}

extension MessageKey {
    /// Parses a key; `name` is its option or argument, for the error.
    init(_ text: String, for name: String) throws(CommandFailure) {
        guard let key = MessageKey(text) else {
            throw CommandFailure(.usage, "\(name) takes a message_key: 8-4-4-4-12 hex digits")
        }
        self = key
    }
}
