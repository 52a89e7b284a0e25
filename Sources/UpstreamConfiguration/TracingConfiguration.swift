package import ConfigurationKeys
import Foundation
import Telemetry
import Vocabulary

/// The export of spans.
package struct TracingConfiguration: Sendable, Equatable {
    /// The collector's base URL, for OTLP/HTTP.
    package var endpoint: String
    /// The ratio of recorded traces from 0 to 1, unless a message says otherwise.
    package var sampleRatio: Double
    /// The path in `data` of a message's own trace context; nil to ignore it.
    package var traceparent: String?
    /// `service.name`.
    package var serviceName: String
    /// Further headers for the collector, one per line; nil for none.
    package var headersFile: SecretFile?
    /// Certificates to trust instead of the system's, PEM.
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
        let endpoint = scope.optional(
            "endpoint",
            url,
            "off",
            "Collector that spans are sent to by OTLP/HTTP; `/v1/traces` is appended."
        )
        sampleRatio = scope.value(
            "sample_ratio",
            .ratio,
            default: "0.01",
            "Share of traces recorded, where a message does not decide."
        )
        let path = ConfigurationType.text("path", "names with dots between them, at most \(TraceMember.depthLimit)") {
            $0 == Self.none || TraceMember(path: $0) != nil
        }
        let traceparent = scope.value(
            "traceparent",
            path,
            default: "traceparent",
            "Where in `data` apps send their W3C trace context; `none`: ignored."
        )
        self.traceparent = traceparent == Self.none ? nil : traceparent
        serviceName = scope.value("service_name", .text, default: "upstream-worker", "`service.name` of the spans.")
        headersFile = scope.optionalSecretFile(
            "headers_file",
            "none",
            "File with more headers for the collector, `name: value` a line."
        )
        caFile = scope.optional("ca_file", .file, "the system's trust store", "Certificates to trust, PEM.")
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

    /// The headers of ``headersFile``.
    ///
    /// - Throws: ``TracingHeadersError`` if it can't be read, or a line is no header.
    package func headers() throws(TracingHeadersError) -> [(name: String, value: String)] {
        guard let headersFile else { return [] }
        let lines: [[UInt8]]
        do throws(FileError) {
            lines = try headersFile.lines()
        } catch {
            throw TracingHeadersError(message: error.message)
        }
        var headers: [(name: String, value: String)] = []
        for (index, line) in lines.enumerated() {
            guard let header = Self.header(line) else {
                throw TracingHeadersError(
                    message: "'\(headersFile.path)' line \(index + 1) is not 'name: value' in printable ASCII"
                )
            }
            headers.append(header)
        }
        return headers
    }

    /// Parses a header line (RFC 9110 section 5): a token, a colon, and visible characters.
    private static func header(_ line: [UInt8]) -> (name: String, value: String)? {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let name = line[..<colon]
        let value = String(decoding: line[(colon + 1)...], as: UTF8.self).trimmingCharacters(in: [" ", "\t"])
        let isToken = name.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
        guard !name.isEmpty, isToken, !value.isEmpty, value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            return nil
        }
        return (String(decoding: name, as: UTF8.self), value)
    }
}

/// Why the headers file can't be used; quotes nothing of it.
package struct TracingHeadersError: Error, Sendable {
    /// The reason as text.
    package var message: String
}

extension ConfigurationType where Value == Double {
    static var ratio: Self {
        .init(name: "number 0-1", placeholder: 0, shape: .ratio) { text throws(ConfigurationTypeError) in
            guard let number = Double(text), (0...1).contains(number) else {
                throw .init(message: "must be a number from 0 to 1, not '\(ConfigurationType<String>.shown(text))'")
            }
            return number
        }
    }
}
