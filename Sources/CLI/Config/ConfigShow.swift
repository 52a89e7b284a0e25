import ArgumentParser
import ConfigurationKeys
import UpstreamConfiguration
import Vocabulary

struct ConfigShow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows every key's value and where it comes from: default, file, variable or flag.",
        discussion: """
            Examples:
              upstream-worker config show
              upstream-worker config show --changed
              upstream-worker config show senders.0 --json
              UPSTREAM_LOG__LEVEL=debug upstream-worker config show log

            Secrets are never shown: the configuration holds the names of their files only, and a password in a URL is \
            masked. The files are not looked at. Whatever is wrong is reported on stderr, and the exit code is then 78.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Only this key, or the keys of this section.")
    var key: String?
    @Flag(help: "Only what is not the default.")
    var changed = false
    @OptionGroup var format: ListOptions

    func run(in context: CommandContext) async throws {
        let effective = try options.loader(context).effective(file: options.config)
        let values = effective.values.filter { value in
            (key.map { value.key == $0 || value.key.hasPrefix($0 + ".") } ?? true) && !(changed && value.isDefault)
        }
        if values.isEmpty, let key, !effective.values.contains(where: { $0.key.hasPrefix(key) }) {
            let near = Suggestion.nearest(to: key, among: effective.values.map(\.key).filter { $0 != key })
            throw CommandFailure(.usage, "no key '\(key)'" + (near.map { "; did you mean '\($0)'?" } ?? ""))
        }
        let list = RowList<EffectiveValue>(
            none: "every key has its default",
            columns: [.init("key"), .init("value", minimum: 16), .init("source", minimum: 12, dropOrder: 1)],
            cells: { [$0.key, Self.text($0), $0.source] },
            texts: { [$0.key, $0.value == nil ? nil : Self.text($0), Self.kind($0.origin)] },
            json: { Self.json($0, isForTerminal: $1) }
        )
        try context.console.show(values, format, list, piped: .table)
        guard effective.problems.isEmpty else {
            let lines = effective.problems.map(\.description)
            let count = lines.count == 1 ? "1 problem" : "\(lines.count) problems"
            throw CommandFailure(.configuration, (lines + ["\(count) found."]).joined(separator: "\n"))
        }
    }

    private static func text(_ value: EffectiveValue) -> String {
        switch value.value {
        case .text(let text): text
        case .list(let list): list.isEmpty ? "none" : list.joined(separator: ", ")
        case nil: value.note.isEmpty ? "-" : "(\(value.note.filter { $0 != "`" }))"
        }
    }

    private static func json(_ value: EffectiveValue, isForTerminal: Bool) -> [UInt8] {
        var json = JSONWriter(isForTerminal: isForTerminal)
        json.beginObject()
        json.member("key", value.key)
        json.name("value")
        switch value.value {
        case .text(let text): json.string(text)
        case .list(let list):
            json.beginArray()
            for text in list { json.string(text) }
            json.endArray()
        case nil: json.null()
        }
        json.member("source", kind(value.origin))
        switch value.origin {
        case .file(let path, let line, _):
            json.member("file", path)
            json.member("line", line)
        case .environment(let name): json.member("variable", name)
        case .flag(let name): json.member("flag", name)
        case .absent: break
        }
        json.endObject()
        return json.finish()
    }

    private static func kind(_ origin: ConfigurationOrigin) -> String {
        switch origin {
        case .file: "file"
        case .environment: "environment"
        case .flag: "flag"
        case .absent: "default"
        }
    }
}
