/// A block of a document, and what holds it to the truth.
struct DocumentedBlock {
    enum Check {
        /// Nothing is compared: it is a drawing, or needs what no test has; the reason.
        case none(String)
        /// YAML that the configuration's reader takes.
        case configuration
        /// JSON text.
        case json
        /// A statement that runs in a migrated database.
        case sql
        /// A script that the shell reads; its commands are those of ``DocumentedCommandTests``.
        case shell
        /// Commands that run on a ``DocumentedStage`` and print what is shown: words that are passed otherwise, the terminal's
        /// width, and how lines begin that other circumstances bring.
        case output([String: String] = [:], columns: Int = 120, without: [String] = [])
        /// Each of these strings stands in that file.
        case source(String, [String])
        /// Each of these strings stands in the block, and in the file that prints it.
        case labels(String, [String])
        /// This test of that file looks at it.
        case test(String, String)
        /// This script runs the page's blocks.
        case script(String)
    }

    /// The heading above it.
    var section: String
    /// Which of the section's blocks it is, counted from one.
    var number: Int
    /// What holds it to the truth.
    var check: Check

    /// An entry of the table.
    init(_ section: String, _ number: Int, _ check: Check) {
        (self.section, self.number, self.check) = (section, number, check)
    }

    /// An entry for a section's only block.
    init(_ section: String, _ check: Check) { self.init(section, 1, check) }

    /// The pages whose blocks have an entry each.
    static let pages: [String: [DocumentedBlock]] = [
        "README.md": readme, "docs/install.md": install, "docs/handlers.md": handlers, "docs/queries.md": queries,
        "docs/replay.md": replay, "docs/operations.md": operations, "docs/findings.md": findings,
        "docs/metrics.md": metrics, "docs/retention.md": retention, "docs/console.md": console, "docs/api.md": api,
        "docs/servers.md": servers, "docs/upgrade.md": upgrade, "docs/backup.md": backup,
        "docs/cdc.md": cdc, "docs/high-availability.md": highAvailability,
    ]
}
