// swift-tools-version: 6.2
import PackageDescription

let worker: [Target.Dependency] = [.product(name: "UpstreamWorker", package: "upstream-worker")]

let package = Package(
    name: "orders-worker",
    dependencies: [
        // Elsewhere: .package(url: "https://…/upstream-worker", from: "…").
        .package(name: "upstream-worker", path: "../..")
    ],
    targets: [
        .executableTarget(name: "orders-worker", dependencies: worker),
        // The one in the documentation.
        .executableTarget(name: "shortest-worker", dependencies: worker),
    ]
)
