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

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")

func module(_ name: String, _ dependencies: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
}

func suite(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let package = Package(
    name: "upstream-worker",
    products: [
        .library(name: "UpstreamKit", targets: ["UpstreamKit"]),
        .library(name: "UpstreamWorker", targets: ["UpstreamWorker"]),
        .executable(name: "upstream-worker", targets: ["Program"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.3.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
    ],
    targets: [
        // The C libraries: a module map and a shim of static inline functions each.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CLibXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(name: "CGlibc"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),

        // The vocabulary, and what everything reports with.
        module("Vocabulary"),
        module("UpstreamKit", ["Vocabulary"]),
        module("Telemetry", ["Vocabulary", logging]),
        module("Digests", ["Vocabulary", "COpenSSL"]),

        // Service records: the resolver's call, and a reader of its answers.
        module("DNS", ["CGlibc"]),

        // The wire.
        module("TLSWire", ["COpenSSL", nio]),
        module("XMLWire", ["CLibXML2", nio]),
        module("XMPP", ["Vocabulary", "Digests", "XMLWire"]),
        module(
            "XMPPSession",
            [
                "Vocabulary", "Telemetry", "DNS", "TLSWire", "XMLWire", "XMPP", "Pipeline", nio, nioPosix,
                logging,
            ]
        ),

        // Subprocesses.
        module("Processes", ["CGlibc"]),

        // The database.
        module("Postgres", ["Vocabulary", "CLibPQ"]),
        // A private server, for `dev`, `bench` and the suites.
        module("LocalDatabase", ["Processes"]),
        module("MessageStore", ["Vocabulary", "UpstreamKit", "Postgres", "Pipeline", "Digests"]),

        // Looking at what is stored, and sending it again.
        module(
            "Querying",
            ["Vocabulary", "CGlibc", "UpstreamKit", "Postgres", "Digests"]
        ),
        module(
            "Replaying",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "Telemetry", "XMLWire", "XMPP",
                "XMPPSession",
                "Postgres",
                "MessageStore", "Querying", "Pipeline", nio, nioPosix, logging,
            ]
        ),

        // The core: batches, dispatch, and the ports the other two sides meet at.
        module("Pipeline", ["Vocabulary", "UpstreamKit", "Telemetry", logging]),
        module(
            "Handlers",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "Telemetry", "Digests", "Pipeline", "Processes", "Postgres", nio,
                nioPosix,
                logging,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                // For the webhooks' client alone, whose TLS it is.
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ]
        ),

        // The programs.
        module("CCSEmulator", ["TLSWire", "XMLWire", nio, nioPosix]),
        module(
            "Worker",
            [
                "Vocabulary", "CGlibc", "UpstreamKit", "Telemetry", "DNS", "TLSWire", "XMLWire", "XMPP",
                "XMPPSession",
                "Postgres",
                "MessageStore", "Replaying", "Pipeline", "Handlers", nio, nioPosix, logging, lifecycle,
                .product(name: "Yams", package: "Yams"),
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
                "Replaying", "Worker", nio, logging, lifecycle,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ],
            // Part of the binary by scripts/embed-assets.
            exclude: ["Assets"]
        ),
        module(
            "CLI",
            [
                "Vocabulary", "CGlibc", "Worker", "Console", "CCSEmulator", "Telemetry", "Postgres", "LocalDatabase",
                "MessageStore",
                "Querying",
                "Replaying",
                "Pipeline",
                "XMLWire", "XMPP", "UpstreamKit", nio, logging,
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(name: "Program", dependencies: ["CLI"], swiftSettings: strict),

        // The same commands for a worker with Swift handlers of its own.
        module("UpstreamWorker", ["CLI", "UpstreamKit"]),

        // Run by hand, in a release build.
        .executableTarget(
            name: "Micro",
            dependencies: ["Vocabulary", "XMLWire", "XMPP", "CCSEmulator", nio],
            path: "Benchmarks/Micro",
            swiftSettings: strict
        ),

        // What the suites with real processes share.
        .target(
            name: "IntegrationSupport",
            dependencies: [nio, nioPosix],
            path: "Tests/IntegrationSupport",
            swiftSettings: strict
        ),
        // A cluster for each suite, and a database for each test.
        .target(
            name: "DatabaseSupport",
            dependencies: ["Postgres", "LocalDatabase", "MessageStore"],
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
                "Console", "Postgres", "QuerySupport", "Worker", nio, logging, lifecycle,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
            ],
            path: "Tests/ConsoleSupport",
            swiftSettings: strict
        ),

        suite("VocabularyTests", ["Vocabulary"]),
        suite("UpstreamKitTests", ["Vocabulary", "UpstreamKit"]),
        suite("TelemetryTests", ["Vocabulary", "Telemetry", logging]),
        suite("DigestsTests", ["Vocabulary", "Digests"]),
        suite("DNSTests", ["DNS"]),
        suite("TLSWireTests", ["TLSWire", "COpenSSL", nio, nioPosix, nioEmbedded]),
        suite("XMLWireTests", ["XMLWire", "CGlibc", nio, nioEmbedded]),
        suite("XMPPTests", ["Vocabulary", "XMPP", "XMLWire", "Digests"]),
        suite(
            "XMPPSessionTests",
            [
                "Vocabulary", "IntegrationSupport", "XMPPSession", "XMPP", "XMLWire", "DNS", "TLSWire", "Pipeline",
                "Telemetry",
                "Digests", nio,
                nioPosix, nioEmbedded, logging,
            ]
        ),
        suite("PostgresTests", ["Vocabulary", "DatabaseSupport", "IntegrationSupport", "Postgres", "LocalDatabase"]),
        suite(
            "MessageStoreTests",
            [
                "Vocabulary", "DatabaseSupport", "IntegrationSupport", "MessageStore", "Postgres", "LocalDatabase",
                "Handlers",
                "Pipeline", "UpstreamKit",
                "Digests", "Telemetry", logging,
            ]
        ),
        suite(
            "QueryingTests",
            [
                "Vocabulary", "QuerySupport", "Querying", "Postgres", "UpstreamKit",
            ]
        ),
        suite(
            "CLITests",
            [
                "Vocabulary", "CLI", "IntegrationSupport", "QuerySupport", "Querying",
            ]
        ),
        suite(
            "ReplayingTests",
            [
                "Vocabulary", "DatabaseSupport", "Replaying", "Querying", "Postgres", "LocalDatabase", "MessageStore",
                "Pipeline",
                "UpstreamKit",
                "XMPP",
                "XMLWire",
                logging,
            ]
        ),
        suite("PipelineTests", ["Vocabulary", "Pipeline", "Telemetry", "UpstreamKit", logging]),
        suite(
            "HandlersTests",
            ["Vocabulary", "Handlers", "UpstreamKit", "Pipeline", "Digests", "TLSWire", nioPosix, logging]
        ),
        suite(
            "WorkerTests",
            [
                "UpstreamKit", "Pipeline", "Vocabulary", "Worker", "MessageStore", "Telemetry", "DNS", "TLSWire",
                "XMLWire", "XMPP", "XMPPSession", logging, lifecycle,
            ]
        ),
        suite(
            "ConsoleTests",
            [
                "Vocabulary", "UpstreamKit", "CCSEmulator", "QuerySupport", "Postgres", "MessageStore", "Querying",
                "Console",
                "ConsoleSupport",
                "IntegrationSupport", "TLSWire", "Worker", nio, logging,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]
        ),
        suite("CCSEmulatorTests", ["CCSEmulator", "TLSWire", nio, nioPosix]),
        suite(
            "IntegrationTests",
            [
                "Vocabulary", "IntegrationSupport",
                "DatabaseSupport", "CLI", "Console", "Worker", "CCSEmulator", "Postgres", "LocalDatabase", "Handlers",
                "MessageStore", "Querying", "Replaying", "TLSWire",
                "Telemetry", nio, nioPosix, logging,
            ]
        ),
        suite(
            "FailoverTests",
            [
                "IntegrationSupport", "CCSEmulator", "Postgres", "LocalDatabase", "MessageStore", "XMPP",
                nio,
            ]
        ),
    ]
)
