import ConfigurationKeys
import Handlers

/// Writes docs/configuration.md from the declarations of all keys.
package enum ConfigurationReference {
    /// The page, without its last line end.
    package static let page = head + sections.map(section).joined(separator: "\n")

    private static let head = """
        <!-- Written by `upstream-worker config reference`. -->

        # Configuration keys

        The file is YAML: `--config FILE`, else `$UPSTREAM_CONFIG`, else `/etc/upstream-worker/config.yaml`. Environment
        variables override the file, `--set key=value` overrides both. The variable of `senders.0.tls.mode` is
        `UPSTREAM_SENDERS__0__TLS__MODE`; `config env` lists all. `N` is a list index, from 0.

        Durations are `250ms`, `30s`, `15m`, `12h`, `30d`; sizes `512B`, `256KiB`, `4MiB`. Secrets come from files only: a path,
        or the bare name of a systemd credential. A handler has exactly one of \(kinds);
        `log: {}` has no keys. `upstream-worker check` reports all problems at once, with line and key.

        """

    private static var kinds: String {
        let names = HandlerKinds.names.map { "`\($0)`" }
        return names.dropLast().joined(separator: ", ") + " and " + (names.last ?? "")
    }

    /// The keys grouped by the first part of their path, in order of declaration.
    private static var sections: [(name: Substring, keys: [ConfigurationKey])] {
        var sections: [(name: Substring, keys: [ConfigurationKey])] = []
        for key in ConfigurationLoader.keys {
            let name = key.path.prefix { $0 != "." }
            if sections.last?.name != name { sections.append((name, [])) }
            sections[sections.count - 1].keys.append(key)
        }
        return sections
    }

    private static func section(_ name: Substring, _ keys: [ConfigurationKey]) -> String {
        let rows = keys.map { "|`\($0.path)`|\($0.type)|\($0.defaultValue)|\($0.meaning)|" }
        return "\n## \(name)\n\n|key|type|default|meaning|\n|---|---|---|---|\n" + rows.joined(separator: "\n")
    }
}
