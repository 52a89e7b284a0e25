import ConfigurationKeys
import Testing

@testable import UpstreamConfiguration

struct TracingConfigurationTests {
    private let folder: ConfigurationTests.Folder

    init() throws { folder = try ConfigurationTests.Folder() }

    private func read(_ tracing: String) throws(ConfigurationError) -> TracingConfiguration? {
        let yaml = """
            database: {url: 'postgresql:///upstream'}
            senders:
              - {sender_id: '1', host: xmpp.example.com, secret_file: \(folder.secret)}
            tracing: \(tracing)

            """
        return try ConfigurationLoader(environment: [:]).read(yaml: yaml, path: "worker.yaml").configuration.tracing
    }

    private func problems(_ tracing: String) -> [String] {
        do throws(ConfigurationError) {
            _ = try read(tracing)
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    @Test("tracing is off without an endpoint, and has safe defaults with one")
    func defaults() throws {
        #expect(try read("{}") == nil)
        #expect(try read("{sample_ratio: 1}") == nil)
        let tracing = try #require(try read("{endpoint: 'http://127.0.0.1:4318'}"))
        #expect(tracing.sampleRatio == 0.01 && tracing.traceparent == "traceparent" && tracing.headersFile == nil)
        let other = try read("{endpoint: 'https://c.example/otlp', sample_ratio: 0.5, traceparent: none}")
        #expect(other?.sampleRatio == 0.5 && other?.traceparent == nil)
    }

    @Test(
        "what can't be meant is refused",
        arguments: [
            "{endpoint: 'ftp://a.example'}", "{endpoint: 'a.example:4318'}", "{endpoint: 'http://'}",
            "{endpoint: 'https://user:FAKE@a.example'}", "{endpoint: 'https://a.example?key=FAKE'}",
            "{endpoint: 'http://a b'}", "{endpoint: 'HTTPS://u:FAKE@a.example'}", "{sample_ratio: 2}",
            "{sample_ratio: -0.1}", "{sample_ratio: nan}",
            "{sample_ratio: few}", "{traceparent: a..b}", "{traceparent: a.b.c.d.e.f.g.h.i}",
            "{headers_file: /nonexistent}", "{ca_file: /nonexistent}", "{sample_rate: 1}",
        ]
    )
    func refused(_ tracing: String) {
        #expect(problems(tracing).count == 1, "\(problems(tracing))")
        #expect(!problems(tracing).joined().contains("FAKE"))
    }

    @Test("headers for the collector are not sent unencrypted over a network")
    func plainHeaders() throws {
        let headers = folder.secret
        for endpoint in ["https://a.example", "http://127.0.0.1:4318", "http://[::1]:4318", "http://localhost:4318"] {
            #expect(problems("{endpoint: '\(endpoint)', headers_file: '\(headers)'}").isEmpty, "\(endpoint)")
        }
        for endpoint in ["http://a.example:4318", "http://10.0.0.7:4318", "http://localhost.example"] {
            let found = problems("{endpoint: '\(endpoint)', headers_file: '\(headers)'}")
            #expect(found.count == 1 && found[0].contains("unencrypted"), "\(found)")
        }
    }

    @Test("headers are a name and a value a line; what is wrong is found at the start, and never shown")
    func headers() throws {
        func read(_ text: String) throws -> TracingConfiguration {
            try folder.write("headers", text, 0o600)
            let tracing = "{endpoint: 'https://a.example', headers_file: '\(folder.path)/headers'}"
            return try #require(try self.read(tracing))
        }
        let headers = try read("Authorization: Bearer FAKE-1\nX-Scope:  a b \n").headers()
        #expect(headers.map(\.name) == ["Authorization", "X-Scope"])
        #expect(headers.map(\.value) == ["Bearer FAKE-1", "a b"])
        for bad in ["FAKE-1", ": FAKE-1", "a b: FAKE-1", "a:", "a: FAKE-é", "ok: 1\na: FAKE-\u{7F}"] {
            let error = #expect(throws: FileError.self) { try read(bad).headers() }
            #expect(error?.message.contains("FAKE") == false, "\(error?.message ?? "")")
        }
    }
}
