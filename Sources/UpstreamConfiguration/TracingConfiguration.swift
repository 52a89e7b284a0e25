package import ConfigurationKeys
import Foundation
import Telemetry
import Vocabulary

package struct TracingConfiguration: Sendable, Equatable {
    package var endpoint: String
    package var sampleRatio: Double
    /// The path in `data` of a message's own trace context; nil to ignore it.
    package var traceparent: String?
    package var serviceName: String
    package var headersFile: SecretFile?
    package var caFile: String?

    /// The word for ignoring messages' trace contexts.
    private static let none = "none"

    init?(_ scope: ConfigurationScope) {
        let url = ConfigurationType.text(
            "URL",
            "an http:// or https:// URL without credentials, query or fragment",
            echoes: false,
            Self.isEndpoint
        )
        let endpoint = scope.optional("endpoint", url, "off")
            .means("Collector that spans are sent to by OTLP/HTTP; `/v1/traces` is appended.")
        sampleRatio = scope.value("sample_ratio", .ratio, default: "0.01")
            .means("Share of traces recorded, where a message does not decide.")
        let path = ConfigurationType.text("path", "names with dots between them, at most \(TraceMember.depthLimit)") {
            $0 == Self.none || TraceMember(path: $0) != nil
        }
        let traceparent = scope.value("traceparent", path, default: "traceparent")
            .means("Where in `data` apps send their W3C trace context; `none`: ignored.")
        self.traceparent = traceparent == Self.none ? nil : traceparent
        serviceName = scope.value("service_name", .text, default: "upstream-worker")
            .means("`service.name` of the spans.")
        headersFile = scope.optionalSecretFile("headers_file", "none")
            .means("File with more headers for the collector, `name: value` a line.")
        caFile = scope.optional("ca_file", .file, "the system's trust store").means("Certificates to trust, PEM.")
        guard let endpoint else { return nil }
        self.endpoint = endpoint
        if headersFile != nil, !Self.isProtected(endpoint) {
            scope.problem("headers_file", "would go over the network unencrypted: use an https:// endpoint")
        }
    }

    private static func isEndpoint(_ text: String) -> Bool {
        guard let url = URLComponents(string: text), ["http", "https"].contains(url.scheme ?? "") else { return false }
        return url.host?.isEmpty == false && url.user == nil && url.password == nil && url.query == nil
            && url.fragment == nil
    }

    /// Whether exports are encrypted, or stay on this machine.
    private static func isProtected(_ endpoint: String) -> Bool {
        guard let url = URLComponents(string: endpoint), url.scheme == "http" else { return true }
        let host = (url.host ?? "").trimmingCharacters(in: ["[", "]"])
        return host == "localhost" || NetworkAddress(host)?.isLoopback == true
    }

    /// The headers of ``headersFile``; throws if it can't be read, or a line is no header.
    package func headers() throws(FileError) -> [(name: String, value: String)] {
        guard let headersFile else { return [] }
        var headers: [(name: String, value: String)] = []
        for (index, line) in try headersFile.lines().enumerated() {
            guard let header = Self.header(line) else {
                let fault = "line \(index + 1) is not 'name: value' in printable ASCII"
                throw FileError(path: headersFile.path, fault: fault)
            }
            headers.append(header)
        }
        return headers
    }

    /// Parses a header line (RFC 9110 section 5): a token, a colon, and visible characters.
    private static func header(_ line: [UInt8]) -> (name: String, value: String)? {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let name = String(decoding: line[..<colon], as: UTF8.self)
        let value = String(decoding: line[(colon + 1)...], as: UTF8.self).trimmingCharacters(in: [" ", "\t"])
        guard !name.isEmpty, name.isAlphanumeric(or: "!#$%&'*+-.^_`|~"), !value.isEmpty,
            value.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else { return nil }
        return (name, value)
    }
}

extension ConfigurationType where Value == Double {
    static var ratio: Self {
        .init(name: "number 0-1", placeholder: 0, shape: .ratio, wanted: "a number from 0 to 1") { text in
            Double(text).flatMap { (0...1).contains($0) ? $0 : nil }
        }
    }
}
