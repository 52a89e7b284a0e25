import IntegrationSupport
import TLSWire
import Telemetry
import Testing
import Tracing

@testable import TraceExport

/// What we send, as OpenTelemetry's own schema reads it (`Tests/Tools/trace_receiver.py`).
@Suite("A collector reads what we send", .timeLimit(.minutes(10)))
struct CollectorTests {
    private static let request = TraceRequest(service: "a service", version: "1.2.3", instance: "host:1")

    private func client(
        _ receiver: TraceReceiver,
        _ path: String = "",
        scheme: String = "http",
        host: String = "127.0.0.1",
        caFile: String? = nil,
        timeout: Duration = .seconds(10),
        headers: @escaping @Sendable () throws -> [(name: String, value: String)] = { [] }
    ) throws -> CollectorClient {
        try CollectorClient(
            endpoint: "\(scheme)://\(host):\(receiver.port)\(path)",
            caFile: caFile,
            version: "1.2.3",
            timeout: timeout,
            headers: headers
        )
    }

    @Test("Every field of a span comes through, whatever its values")
    func everything() async throws {
        let folder = try TemporaryFolder()
        let receiver = try TraceReceiver(in: folder)
        let parent = TraceContext(traceparent: Array("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".utf8))
        var span = FinishedSpan.sample("receive 1234567890 – ünï")
        span.context.state = "a=1,b=2"
        span.parent = parent
        span.kind = .consumer
        let long = String(repeating: "é", count: 2000)
        span.attributes = [
            "text": .string("x"), "empty": .string(""), "long": .string(long), "yes": .bool(true), "no": .bool(false),
            "int": .int64(-7), "zero": .int64(0), "double": .double(2.5), "texts": .stringArray(["a", ""]),
            "ints": .int64Array([1, -1]), "small": .int32(5), "flags": .boolArray([true, false]),
            "doubles": .doubleArray([0.5]), "shown": .stringConvertible(42), "none": .stringArray([]),
        ]
        span.links = [
            SpanLink(context: InstrumentationContext(childOf: try #require(parent)), attributes: ["n": .int64(1)]),
            SpanLink(context: .topLevel, attributes: [:]),
        ]
        span.events = [SpanEvent(name: "exception", at: DefaultTracerClock.now, attributes: ["exception.type": "E"])]
        span.status = SpanStatus(code: .error, message: "why")
        var many = FinishedSpan.sample("many")
        for number in 0..<200 { many.attributes.set("a\(number)", value: .int64(Int64(number))) }
        many.status = SpanStatus(code: .ok)
        let client = try client(receiver)
        let answer = try await client.post(Self.request.body([span, many]))
        await client.shutdown()
        #expect(answer.status == 200)
        #expect(try receiver.problems() == [])
        let received = try #require(try receiver.spans().first)
        #expect((received.trace, received.id) == ("00000000000000010000000000000002", "0000000000000003"))
        #expect((received.parent, received.state) == ("b7ad6b7169203331", "a=1,b=2"))
        #expect((received.name, received.kind, received.flags) == ("receive 1234567890 – ünï", 5, 0x301))
        #expect((received.start, received.end) == (1_700_000_000_000_000_000, 1_700_000_000_000_000_001))
        #expect((received.status, received.message) == (2, "why"))
        let expected: [String: ReceivedSpan.Value] = [
            "text": "x", "empty": "", "long": .text(String(repeating: "é", count: 512)), "yes": .flag(true),
            "no": .flag(false), "int": -7, "zero": 0, "double": .double(2.5), "texts": .list(["a", ""]),
            "ints": .list([1, -1]), "small": 5, "flags": .list([.flag(true), .flag(false)]),
            "doubles": .list([.double(0.5)]), "shown": "42", "none": .list([]),
        ]
        #expect(received.attributes == expected)
        #expect(received.links.map(\.id) == ["b7ad6b7169203331"] && received.links[0].flags == 0x301)
        #expect(received.dropped == [0, 0, 1])
        #expect(received.events.map(\.name) == ["exception"])
        #expect(
            received.resource["service.name"] == "a service" && received.resource["service.instance.id"] == "host:1"
        )
        #expect(received.resource["service.version"] == "1.2.3")
        let other = try #require(try receiver.spans().last)
        #expect(other.attributes.count == 128 && other.dropped == [72, 0, 0] && other.status == 1)
        let headers = try #require(try receiver.exports().first)
        #expect(headers["content-type"] == "application/x-protobuf")
        #expect(headers["user-agent"] == "OTel-OTLP-Exporter-Swift/1.2.3 upstream-worker")
        #expect(headers["traceparent"] == nil)
    }

    @Test("Retry-After, refusals and partial success are read")
    func answers() async throws {
        let folder = try TemporaryFolder()
        let receiver = try TraceReceiver(in: folder)
        let body = Self.request.body([.sample()])
        let busy = try client(receiver, "/busy")
        let first = try await busy.post(body)
        #expect((first.status, first.retryAfter) == (503, .seconds(1)))
        #expect(try await busy.post(body).status == 200)
        let refusing = try client(receiver, "/refuse/")
        #expect(try await refusing.post(body).status == 400)
        let partial = try client(receiver, "/partial")
        #expect(TraceRequest.rejected(try await partial.post(body).body) == 1)
        for client in [busy, refusing, partial] { await client.shutdown() }
        #expect(try receiver.problems() == [])
    }

    @Test("An answer that stalls after its head ends soon, and counts by its status")
    func stalls() async throws {
        let folder = try TemporaryFolder()
        let receiver = try TraceReceiver(in: folder)
        let client = try client(receiver, "/stall", timeout: .milliseconds(500))
        let start = ContinuousClock.now
        let answer = try await client.post(Self.request.body([.sample()]))
        #expect(answer.status == 200 && answer.body.isEmpty)
        let time = ContinuousClock.now - start
        #expect(time < .seconds(20), "\(time)")
        await client.shutdown()
    }

    @Test("Headers are read for each request; without their file nothing is sent")
    func headers() async throws {
        let folder = try TemporaryFolder()
        let receiver = try TraceReceiver(in: folder)
        let body = Self.request.body([.sample()])
        let authorized = try client(receiver) { [("authorization", "Bearer FAKE-TOKEN")] }
        _ = try await authorized.post(body)
        #expect(try receiver.exports().last?["authorization"] == "Bearer FAKE-TOKEN")
        let failing = try client(receiver) { throw CollectorFailure("FAKE-TOKEN") }
        let failure = await #expect(throws: CollectorFailure.self) { try await failing.post(body) }
        #expect(failure?.text == "cannot read tracing.headers_file")
        #expect(try receiver.exports().count == 1)
        for client in [authorized, failing] { await client.shutdown() }
    }

    @Test("Over TLS the collector's certificate is checked against ca_file")
    func tls() async throws {
        let folder = try TemporaryFolder()
        let authority = try CertificateAuthority()
        let issued = try authority.issue(CertificateRequest(dnsNames: ["localhost"]))
        let chain = try folder.write(issued.chainPEM, as: "chain.pem")
        let key = try folder.write(issued.keyPEM, as: "key.pem")
        let caFile = try folder.write(authority.certificatePEM, as: "ca.pem")
        let receiver = try TraceReceiver(in: folder, certificate: (chain, key))
        let body = Self.request.body([.sample()])
        let trusting = try client(receiver, scheme: "https", host: "localhost", caFile: caFile)
        #expect(try await trusting.post(body).status == 200)
        // The system's certificates don't vouch for it, and the name has to be the certificate's.
        let system = try client(receiver, scheme: "https", host: "localhost")
        await #expect(throws: CollectorFailure.self) { try await system.post(body) }
        let address = try client(receiver, scheme: "https", host: "127.0.0.1", caFile: caFile)
        await #expect(throws: CollectorFailure.self) { try await address.post(body) }
        for client in [trusting, system, address] { await client.shutdown() }
        #expect(try receiver.spans().count == 1)
        let empty = try folder.write("rubbish".utf8, as: "empty.pem")
        #expect(throws: CollectorFailure.self) {
            try client(receiver, scheme: "https", host: "localhost", caFile: empty)
        }
    }
}
