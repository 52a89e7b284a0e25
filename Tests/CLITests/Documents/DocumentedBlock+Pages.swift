extension DocumentedBlock {
    private static let onThePage = "Tests/IntegrationTests/DispatchExampleTests.swift"
    private static let changeCapture = "Tests/IntegrationTests/ChangeCaptureTests.swift"
    private static let drill = "Tests/IntegrationTests/RecoveryDrillTests.swift"
    private static let move = "Tests/IntegrationTests/SenderMoveTests.swift"
    private static let plugins = "Tests/HandlersTests/PluginLoadingTests.swift"
    private static let devStatus = [
        "  streams     ", " bound", "  received    ", "  stored      ", "  duplicates  ", "   conflicts ",
        "   quarantined ",
        "  acked       ", "  in flight   ", "  handled     ", "  rate        ", " msg/s   ack p50 ", "  elapsed     ",
    ]
    /// So wide that every column is there.
    private static let wide = 400

    static let readme: [DocumentedBlock] = [
        .init("upstream-worker", .none("a drawing")),
        .init("Two commands", 1, .source("Makefile", ["\nrun: ", "\ntest: "])),
        .init("Two commands", 2, .labels("Sources/CLI/Dev/DevStatus.swift", devStatus)),
        .init("First use: Prosody", 1, .script("scripts/test-package")),
        .init("First use: Prosody", 2, .configuration),
        .init("First use: Prosody", 3, .script("scripts/test-package")),
    ]

    static let install: [DocumentedBlock] = [
        .init("The package", .script("scripts/test-package")),
        .init("The database", .script("scripts/test-package")),
        .init("The configuration", .script("scripts/test-package")),
        .init("A server to try it with", .script("scripts/test-package")),
        .init("Check, then start", .script("scripts/test-package")),
        .init("Look", 1, .script("scripts/test-package")),
        .init("Look", 2, .script("scripts/test-package")),
        .init("Your own server", .script("scripts/test-package")),
        .init("Upgrade", .script("scripts/test-package")),
        .init("Remove", .script("scripts/test-package")),
    ]

    static let handlers: [DocumentedBlock] = [
        .init("Which messages", .configuration),
        .init("sql", 1, .test(onThePage, "sqlOnThePage")),
        .init("sql", 2, .test(onThePage, "sqlOnThePage")),
        .init("sql", 3, .test(onThePage, "sqlOnThePage")),
        .init("webhook", 1, .test(onThePage, "webhookOnThePage")),
        .init("webhook", 2, .test(onThePage, "webhookOnThePage")),
        .init("exec", 1, .test(onThePage, "execOnThePage")),
        .init("exec", 2, .test(onThePage, "execOnThePage")),
        .init("plugin", 1, .configuration),
        .init("plugin", 2, .test(plugins, "shownPlugin")),
        .init("Swift", .test(onThePage, "swiftOnThePage")),
        .init("log", .test(onThePage, "logOnThePage")),
        .init("What waits: `deliveries`", .output(columns: wide)),
    ]

    static let queries: [DocumentedBlock] = [
        .init("messages list", .output()),
        .init("messages show", .output()),
        .init("messages export", 1, .output()),
        .init("messages export", 2, .json),
        .init("quarantine", .output(columns: wide)),
        .init("conflicts", .output()),
    ]

    static let replay: [DocumentedBlock] = [
        .init("In short", .output(columns: wide)),
        .init("To an XMPP endpoint", .test("Tests/IntegrationTests/ReplayTests.swift", "endpoint")),
        .init("States", 1, .none("a drawing")),
        .init("States", 2, .output()),
        .init("Import", .output()),
        .init("Permissions, size, maintenance", .sql),
    ]

    static let operations: [DocumentedBlock] = [
        .init("Sizes and rates: `stats`", .output(["3s": "10ms"])),
        .init("Handlers", .output(columns: wide)),
    ]

    static let findings: [DocumentedBlock] = [
        .init("doctor", .output(without: ["0 warning"])),
        .init("audit", .output()),
    ]

    static let metrics: [DocumentedBlock] = [
        .init("Tracing", 1, .configuration),
        .init("Tracing", 2, .json),
    ]

    static let retention: [DocumentedBlock] = [
        .init("Erase a device: `forget`", .output())
    ]

    static let console: [DocumentedBlock] = [
        .init("Start it", 1, .configuration),
        .init("Start it", 2, .shell),
        .init("Signing in", .none("nginx is not among the tests' tools")),
    ]

    static let api: [DocumentedBlock] = ["Find", "Retry", "Replay", "Watch"].flatMap { task in
        (1...2).map { .init(task, $0, .test("Tests/ConsoleTests/Reading/OpenAPITests.swift", "tasks")) }
    }

    static let servers: [DocumentedBlock] = [
        .init("Prosody", .test("Tests/IntegrationTests/ServerScenarioTests.swift", "signIn")),
        .init("ejabberd", .test("Tests/IntegrationTests/ServerScenarioTests.swift", "signIn")),
        .init("The worker as an account", 1, .configuration),
        .init("The worker as an account", 2, .shell),
        .init("What a server loses", .sql),
        .init("The worker as a component", .configuration),
        .init("Plain apps", 1, .configuration),
        .init("Plain apps", 2, .test("Tests/IntegrationTests/PlainDeviceTests.swift", "replies")),
        .init("Try a server", .test("Tests/IntegrationTests/ServerTrialTests.swift", "documented")),
    ]

    static let upgrade: [DocumentedBlock] = [
        .init("Upgrade", .test("Tests/MessageStoreTests/MigratorTests.swift", "builtBeforehand")),
        .init("Roll back", .shell),
    ]

    static let cdc: [DocumentedBlock] = [
        .init("The source", 1, .test(changeCapture, "copy")),
        .init("The source", 2, .test(changeCapture, "copy")),
        .init("The copy", 1, .test(changeCapture, "copy")),
        .init("The copy", 2, .test(changeCapture, "copy")),
        .init("The copy", 3, .test(changeCapture, "copy")),
        .init("PostgreSQL 14", .test(changeCapture, "wholeTables")),
        .init("Debezium and wal2json", 1, .none("Debezium is not among the tests' tools")),
        .init("Debezium and wal2json", 2, .test(changeCapture, "wholeTables")),
    ]

    static let backup: [DocumentedBlock] = [
        .init("Back up", 1, .shell),
        .init("Back up", 2, .shell),
        .init("Restore", .shell),
        .init("Reconcile", .output()),
        .init("Drill", 1, .test(drill, "counted")),
        .init("Drill", 2, .test(drill, "counted")),
        .init("Drill", 3, .test(drill, "counted")),
    ]

    static let highAvailability: [DocumentedBlock] = [
        .init("Patroni", 1, .source("Tests/FailoverTests/PatroniCluster.swift", ["synchronous_mode: true"])),
        .init("Patroni", 2, .configuration),
        .init("Move a sender to another database", 1, .test(move, "move")),
        .init("Move a sender to another database", 2, .test(move, "move")),
    ]
}
