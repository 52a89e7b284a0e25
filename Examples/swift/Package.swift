// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "orders-handler",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "upstream-worker", path: "../..")],
    targets: [
        .executableTarget(
            name: "orders",
            dependencies: [.product(name: "UpstreamKit", package: "upstream-worker")]
        )
    ]
)
