// swift-tools-version: 6.2
import PackageDescription

/// Every target is built the same way: language mode 6, imports internal unless a signature shows them, and no warning
/// left standing.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
    .treatAllWarnings(as: .error),
]

/// The commit that a release is built from, shown with the version.
///
/// `scripts/build-release` gives it; other builds know none.
let stamp: [CSetting] =
    Context.environment["UPSTREAM_COMMIT"].map { [.define("UPSTREAM_COMMIT", to: "\"\($0)\"")] } ?? []

/// Lets the optimiser look into a module of small values from those that use it, in the program that is released.
///
/// What is `package` is not inlined across modules otherwise, `@inlinable` or not (Swift 6.3): each look at a span of a message
/// would be a call, and each question to a message in a batch a copy of it. `scripts/build-release` asks for it; SwiftPM allows
/// such a flag in a package that others depend on only where it is asked for.
let transparent: [SwiftSetting] =
    Context.environment["UPSTREAM_TRANSPARENT"] == nil ? [] : [.unsafeFlags(["-enable-cmo-everything"])]

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let tracing: Target.Dependency = .product(name: "Tracing", package: "swift-distributed-tracing")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")

func module(
    _ name: String,
    _ dependencies: [Target.Dependency] = [],
    exclude: [String] = [],
    plugins: [Target.PluginUsage] = []
) -> Target {
    .target(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict, plugins: plugins)
}

func suite(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

/// A worker of Examples/swift, built with everything else for the tests that run it.
func example(_ name: String) -> Target {
    .executableTarget(
        name: "example-\(name)",
        dependencies: ["UpstreamWorker"],
        path: "Examples/swift/Sources/\(name)",
        swiftSettings: strict
    )
}

let package = Package(
    name: "upstream-worker",
    products: [
        .library(name: "UpstreamKit", targets: ["UpstreamKit"]),
        .library(name: "UpstreamWorker", targets: ["UpstreamWorker"]),
        .executable(name: "upstream-worker", targets: ["Program"]),
        .executable(name: "upstream-plugin-host", targets: ["PluginHost"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.3.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        // The C libraries: a module map and a shim of static inline functions each.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CLibXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(name: "CGlibc"),
        // No library: searches of text in vectors.
        .systemLibrary(name: "CBytes"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),

        // Migrations and assets, made part of the binary at build time.
        .plugin(name: "EmbedFiles", capability: .buildTool(), dependencies: ["Embed"]),
        .executableTarget(name: "Embed", path: "Plugins/Embed", swiftSettings: strict),

        // What `--version` says.
        .target(name: "CBuildInfo", cSettings: stamp),
        module("BuildInfo", ["CBuildInfo", "COpenSSL", "CLibXML2", "CLibPQ"]),

        // The vocabulary, and what everything reports with.
        .target(name: "Vocabulary", dependencies: ["CBytes"], swiftSettings: strict + transparent),
        module("UpstreamKit", ["Vocabulary"]),
        module("Telemetry", ["Vocabulary", "CGlibc", logging, tracing]),
        module("Digests", ["Vocabulary", "COpenSSL"]),

        // Look-ups of names: addresses, and service records with a reader of the answers.
        module("DNS", ["Vocabulary", "CGlibc"]),

        // The wire.
        module("TLSWire", ["Vocabulary", "COpenSSL", nio]),
        module("XMLWire", ["CLibXML2", "CBytes", nio]),
        module("XMPP", ["Vocabulary", "CBytes", "Digests", "XMLWire"]),
        module(
            "XMPPSession",
            [
                "Vocabulary", "Telemetry", "DNS", "TLSWire", "XMLWire", "XMPP", "Ingest", nio, nioPosix,
                logging,
            ]
        ),

        // Requests over HTTP/1.1.
        module(
            "HTTPWire",
            ["Vocabulary", "TLSWire", nio, nioPosix, .product(name: "NIOHTTP1", package: "swift-nio")]
        ),

        // What reads a configuration's keys: the file's tree, types, secrets, problems.
        module("ConfigurationKeys", ["Vocabulary", "CGlibc", .product(name: "Yams", package: "Yams")]),

        // The steps of `check --connect`.
        module("Probing", ["Vocabulary", "TLSWire", nio, nioPosix]),

        // Subprocesses.
        module("Processes", ["Vocabulary", "CGlibc"]),
        // In C, a process of its own: what loads a handler's shared library.
        .executableTarget(name: "PluginHost"),

        // The database.
        module("Postgres", ["Vocabulary", "CLibPQ"]),
        // A private server, for `dev`, `bench` and the suites.
        module("LocalDatabase", ["Processes"]),
        module(
            "MessageStore",
            ["Vocabulary", "UpstreamKit", "Telemetry", "Postgres", "Ingest", "Dispatcher", "Digests"],
            plugins: ["EmbedFiles"]
        ),

        // Looking at what is stored, and sending it again.
        module(
            "Querying",
            ["Vocabulary", "CGlibc", "UpstreamKit", "Postgres", "Digests"]
        ),
        module(
            "Replaying",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "Telemetry", "XMLWire", "XMPP", "Postgres", "MessageStore",
                "Querying",
                "Dispatcher", logging,
            ]
        ),
        // An XMPP server as a replay's target.
        module(
            "XMPPEndpoint",
            [
                "Vocabulary", "UpstreamKit", "Telemetry", "XMLWire", "XMPP", "XMPPSession", "Replaying",
                nio,
                nioPosix, logging,
            ]
        ),

        // What is shown of each kind of row, described once for commands, API and pages.
        module(
            "Resources",
            ["Vocabulary", "UpstreamKit", "Postgres", "Querying", "Replaying", "MessageStore"]
        ),

        // Looking at a running system, and proving that nothing is missing.
        module(
            "Diagnosis",
            ["Vocabulary", "Postgres", "MessageStore", "Digests"]
        ),

        // Spans, sent to a collector.
        module(
            "TraceExport",
            [
                "Vocabulary", "Telemetry", "DNS", "HTTPWire", "TLSWire", tracing, logging, nio,
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),

        // The core: batches, deliveries to handlers, and the ports the other two sides meet at.
        module("Dispatcher", ["Vocabulary", "UpstreamKit", "Telemetry", logging, tracing]),
        module("Ingest", ["Vocabulary", "Telemetry", "Dispatcher", logging, tracing]),
        // The kinds of handlers, a folder each.
        module(
            "Handlers",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "ConfigurationKeys", "Telemetry", "Digests", "Dispatcher",
                "Processes", "Postgres", "DNS", "TLSWire", "HTTPWire", "Probing", nio, nioPosix, logging,
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),

        // The operator's settings: sections, the whole, template and schema.
        module(
            "UpstreamConfiguration",
            [
                "Vocabulary", "ConfigurationKeys", "UpstreamKit", "Telemetry", "DNS", "XMLWire", "XMPP", "MessageStore",
                "Handlers", "Querying",
                logging,
            ]
        ),

        // The programs.
        module("CCSEmulator", ["Vocabulary", "Digests", "TLSWire", "XMLWire", nio, nioPosix]),
        module(
            "Worker",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "Telemetry", "DNS", "TLSWire", "XMLWire", "XMPP", "XMPPSession",
                "ConfigurationKeys", "Probing", "UpstreamConfiguration", "Postgres", "MessageStore", "Replaying",
                "XMPPEndpoint",
                "Ingest",
                "Dispatcher",
                "Handlers", "Querying",
                "TraceExport", nio, nioPosix, logging, lifecycle, tracing,
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]
        ),
        // The page and the HTTP API over what is stored.
        module(
            "Console",
            [
                "Vocabulary", "UpstreamKit", "Telemetry", "Digests", "Postgres", "MessageStore", "Querying",
                "Replaying", "Resources", "ConfigurationKeys", "UpstreamConfiguration", "TLSWire", nio, logging,
                lifecycle,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ],
            exclude: ["Assets"],
            plugins: ["EmbedFiles"]
        ),
        module(
            "CLI",
            [
                "BuildInfo", "Vocabulary", "CGlibc", "ConfigurationKeys", "Probing", "UpstreamConfiguration", "Worker",
                "Console",
                "CCSEmulator",
                "Telemetry",
                "Postgres", "LocalDatabase", "MessageStore", "Diagnosis", "Querying", "Replaying", "XMPPEndpoint",
                "Resources", "Ingest", "XMLWire", "XMPP", "UpstreamKit", nio, logging,
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(name: "Program", dependencies: ["CLI"], swiftSettings: strict),

        // The same commands for a worker with Swift handlers of its own.
        module("UpstreamWorker", ["CLI", "UpstreamKit"]),

        // The workers of Examples/swift, whose own package is built by `make examples`.
        example("orders-worker"),
        example("shortest-worker"),

        // Run by hand, in a release build.
        .executableTarget(
            name: "Micro",
            dependencies: ["Vocabulary", "XMLWire", "XMPP", "CCSEmulator", nio],
            path: "Benchmarks/Micro",
            exclude: ["instructions.json"],
            swiftSettings: strict
        ),
        // What developers decide by, measured as `bench` measures.
        .executableTarget(
            name: "Compare",
            dependencies: [
                "CLI", "CCSEmulator", "Postgres", "Vocabulary", nio, nioPosix,
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Benchmarks/Compare",
            swiftSettings: strict
        ),

        // Workers on virtual time, by seed.
        .systemLibrary(name: "CSwiftRuntime", path: "Simulation/Runtime"),
        .executableTarget(
            name: "Simulation",
            dependencies: [
                "Vocabulary", "UpstreamKit", "Telemetry", "Digests", "TLSWire", "XMLWire", "XMPP", "XMPPSession",
                "Ingest", "Dispatcher", "SimulatedDatabase", "CCSEmulator", "CSwiftRuntime",
                nio, logging,
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Simulation",
            exclude: ["Database", "Runtime", "mutants.toml", "failed-seeds.txt"],
            swiftSettings: strict
        ),
        // PostgreSQL behind the ports, on virtual time.
        .target(
            name: "SimulatedDatabase",
            dependencies: ["Vocabulary", "UpstreamKit", "Ingest", "Dispatcher", "Postgres", "MessageStore"],
            path: "Simulation/Database",
            swiftSettings: strict
        ),

        // What the suites with real processes share.
        .target(
            name: "IntegrationSupport",
            dependencies: ["Vocabulary", "Telemetry", nio, nioPosix, logging],
            path: "Tests/IntegrationSupport",
            swiftSettings: strict
        ),
        // What tests do to a running emulator.
        .target(
            name: "EmulatorSupport",
            dependencies: ["CCSEmulator", nio],
            path: "Tests/EmulatorSupport",
            swiftSettings: strict
        ),
        // A cluster for each suite, and a database for each test.
        .target(
            name: "DatabaseSupport",
            dependencies: ["IntegrationSupport", "Postgres", "LocalDatabase", "MessageStore"],
            path: "Tests/DatabaseSupport",
            swiftSettings: strict
        ),
        // A database with messages, for the suites that look into one.
        .target(
            name: "QuerySupport",
            dependencies: ["Vocabulary", "DatabaseSupport", "Querying", "Postgres", "LocalDatabase", "UpstreamKit"],
            path: "Tests/QuerySupport",
            swiftSettings: strict
        ),

        // The real console over a database, and a client for it.
        .target(
            name: "ConsoleSupport",
            dependencies: [
                "UpstreamConfiguration", "IntegrationSupport",
                "Console", "Postgres", "QuerySupport", nio, nioPosix, logging, lifecycle,
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/ConsoleSupport",
            swiftSettings: strict
        ),

        suite("VocabularyTests", ["Vocabulary"]),
        suite("UpstreamKitTests", ["Vocabulary", "UpstreamKit"]),
        suite("TelemetryTests", ["Vocabulary", "IntegrationSupport", "Telemetry", logging]),
        suite("DigestsTests", ["Vocabulary", "Digests"]),
        suite("DNSTests", ["Vocabulary", "DNS"]),
        suite("TLSWireTests", ["Vocabulary", "TLSWire", "COpenSSL", nio, nioPosix, nioEmbedded]),
        suite(
            "HTTPWireTests",
            ["HTTPWire", "TLSWire", nio, nioEmbedded, .product(name: "NIOHTTP1", package: "swift-nio")]
        ),
        suite("XMLWireTests", ["XMLWire", "CGlibc", nio, nioEmbedded]),
        suite("XMPPTests", ["Vocabulary", "XMPP", "XMLWire", "Digests"]),
        suite(
            "XMPPSessionTests",
            [
                "Vocabulary", "IntegrationSupport", "EmulatorSupport", "CCSEmulator", "XMPPSession", "XMPP", "XMLWire",
                "DNS", "TLSWire",
                "Ingest", "Telemetry",
                "Digests", nio,
                nioPosix, nioEmbedded, logging,
            ]
        ),
        suite("PostgresTests", ["Vocabulary", "DatabaseSupport", "IntegrationSupport", "Postgres", "LocalDatabase"]),
        suite(
            "MessageStoreTests",
            [
                "Vocabulary", "DatabaseSupport", "IntegrationSupport", "MessageStore", "Postgres", "LocalDatabase",
                "Handlers", "Querying",
                "Ingest", "Dispatcher", "UpstreamKit",
                "Digests", "Telemetry", logging,
            ]
        ),
        suite(
            "SimulatedDatabaseTests",
            [
                "Vocabulary", "UpstreamKit", "DatabaseSupport", "SimulatedDatabase", "MessageStore", "Postgres",
                "LocalDatabase", "Handlers", "Ingest", "Dispatcher",
            ]
        ),
        suite(
            "QueryingTests",
            [
                "Vocabulary", "QuerySupport", "Querying", "Resources", "Postgres", "UpstreamKit",
            ]
        ),
        suite(
            "DiagnosisTests",
            [
                "Vocabulary", "DatabaseSupport", "QuerySupport", "Diagnosis", "Postgres", "LocalDatabase",
                "MessageStore", "Processes",
            ]
        ),
        suite(
            "CLITests",
            [
                "ConfigurationKeys", "UpstreamConfiguration",
                "BuildInfo", "Vocabulary", "CLI", "ConsoleSupport", "Worker", "DatabaseSupport", "LocalDatabase",
                "Postgres",
                "IntegrationSupport", "QuerySupport", "Querying", "MessageStore",
            ]
        ),
        suite(
            "ReplayingTests",
            [
                "XMPPEndpoint",
                "Vocabulary", "IntegrationSupport", "DatabaseSupport", "Replaying", "Querying", "Postgres",
                "LocalDatabase",
                "MessageStore",
                "Dispatcher",
                "UpstreamKit",
                "XMPP",
                "XMLWire",
            ]
        ),
        suite(
            "TraceExportTests",
            [
                "Vocabulary", "Telemetry", "Ingest", "Dispatcher", "TraceExport", "IntegrationSupport",
                "TLSWire",
                tracing, logging,
            ]
        ),
        suite(
            "IngestTests",
            ["Vocabulary", "IntegrationSupport", "Ingest", "Dispatcher", "Telemetry"]
        ),
        suite(
            "DispatcherTests",
            ["Vocabulary", "IntegrationSupport", "Dispatcher", "Telemetry", "UpstreamKit", tracing, logging]
        ),
        suite(
            "HandlersTests",
            [
                "Vocabulary", "ConfigurationKeys", "Handlers", "UpstreamKit", "Dispatcher", "Digests", "DNS",
                "HTTPWire",
                "IntegrationSupport", "TLSWire", logging,
            ]
        ),
        suite(
            "WorkerTests",
            [
                "ConfigurationKeys", "Handlers", "Probing", "Querying", "UpstreamConfiguration",
                "UpstreamKit", "Dispatcher", "Ingest", "Vocabulary", "IntegrationSupport", "Worker", "MessageStore",
                "Telemetry",
                "DNS",
                "TLSWire", "XMLWire", "XMPP", "XMPPSession", nio, nioPosix, logging, lifecycle,
            ]
        ),
        suite(
            "ConsoleTests",
            [
                "ConfigurationKeys", "UpstreamConfiguration",
                "Vocabulary", "CCSEmulator", "QuerySupport", "Postgres", "MessageStore", "Querying",
                "Console", "Resources",
                "ConsoleSupport", "DatabaseSupport",
                "IntegrationSupport", "HTTPWire", "TLSWire", nio, logging,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]
        ),
        suite("CCSEmulatorTests", ["EmulatorSupport", "CCSEmulator", "TLSWire", nio, nioPosix, nioEmbedded]),
        suite(
            "IntegrationTests",
            [
                "UpstreamConfiguration",
                "Vocabulary", "IntegrationSupport", "EmulatorSupport",
                "DatabaseSupport", "CLI", "Console", "Diagnosis", "Worker", "CCSEmulator", "Postgres", "LocalDatabase",
                "Handlers", "Probing", "Compare", "Dispatcher", "UpstreamKit",
                "MessageStore", "Querying", "Replaying", "TLSWire",
                "Telemetry", nio, nioPosix, logging,
            ]
        ),
        suite("SimulationTests", ["Simulation"]),
        suite(
            "FailoverTests",
            [
                "IntegrationSupport", "EmulatorSupport", "CCSEmulator", "Postgres", "LocalDatabase", "MessageStore",
                "Processes", "XMPP",
                nio,
            ]
        ),
    ]
)
