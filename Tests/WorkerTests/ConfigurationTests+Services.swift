import Foundation
import Testing
import UpstreamConfiguration

/// What Kubernetes puts into the environment.
extension ConfigurationTests {
    @Test("what Kubernetes sets for Services named like us is nobody's configuration; a mistyped key still is an error")
    func serviceLinks() throws {
        var links: [String: String] = [:]
        for (service, port, ports) in [("DB", 5432, ["POSTGRES"]), ("WORKER", 9464, []), ("DATABASE", 5432, ["A_B"])] {
            let name = "UPSTREAM_\(service)"
            let address = "10.0.171.239"
            links["\(name)_SERVICE_HOST"] = address
            links["\(name)_SERVICE_PORT"] = "\(port)"
            for part in ports { links["\(name)_SERVICE_PORT_\(part)"] = "\(port)" }
            links["\(name)_PORT"] = "tcp://\(address):\(port)"
            links["\(name)_PORT_\(port)_TCP"] = "tcp://\(address):\(port)"
            links["\(name)_PORT_\(port)_TCP_PROTO"] = "tcp"
            links["\(name)_PORT_\(port)_TCP_PORT"] = "\(port)"
            links["\(name)_PORT_\(port)_TCP_ADDR"] = address
        }
        // A Service that is called `upstream`.
        for (suffix, value) in [
            ("SERVICE_HOST", "10.0.0.1"), ("PORT", "tcp://10.0.0.1:53"), ("PORT_53_UDP_ADDR", "10.0.0.1"),
        ] {
            links["UPSTREAM_\(suffix)"] = value
        }
        let plain = try read(minimal)
        let configuration = try read(minimal, links)
        #expect(configuration.senders[0].port == plain.senders[0].port)
        #expect(configuration.database.url == plain.database.url)

        for name in [
            "UPSTREAM_DATABSE__URL", "UPSTREAM_DATABASE__PORT", "UPSTREAM_ADMIN__SERVICE_HOST", "UPSTREAM_WRITERS",
        ] {
            links[name] = "x"
        }
        let found = problems(minimal, links)
        #expect(found.count == 4, "\(found)")
        #expect(
            found.contains {
                $0.contains("UPSTREAM_DATABSE__URL") && $0.hasSuffix("did you mean UPSTREAM_DATABASE__URL?")
            }
        )
    }

    @Test("no pod of the deployment gets variables of other Services")
    func deployedPods() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../deploy/kustomize")
        var pods = 0
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        where file.pathExtension == "yaml" {
            let text = try String(contentsOf: file, encoding: .utf8)
            let containers = text.components(separatedBy: "\n      containers:").count - 1
            pods += containers
            #expect(
                text.components(separatedBy: "\n      enableServiceLinks: false").count - 1 == containers,
                "\(file)"
            )
        }
        #expect(pods >= 2)
    }
}
