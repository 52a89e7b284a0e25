// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "orders-worker",
    platforms: [.macOS(.v15)],
    dependencies: [
        // Elsewhere: .package(url: "https://…/upstream-worker", from: "…").
        .package(name: "upstream-worker", path: "../..")
    ],
    targets: [
        .executableTarget(
            name: "orders-worker",
            dependencies: [.product(name: "UpstreamWorker", package: "upstream-worker")],
            path: "Sources"
        )
    ]
)
