import ConfigurationKeys
import HTTPWire
import NIOCore
import Probing
import TLSWire
import Telemetry
import UpstreamKit
import Vocabulary

struct WebhookKind: HandlerKind {
    static let key = "webhook"

    var url: String
    var secretFile: SecretFile
    var options = WebhookHandler.Options()
    var headers = WebhookHeaders()
    var headersFile: SecretFile?

    init(_ scope: ConfigurationScope) {
        let rule = "an https:// URL (http:// within allow_networks)"
        let url = ConfigurationType.text("URL", rule, echoes: false) { text in
            ["https://", "http://"].contains { text.hasPrefix($0) && text.count > $0.count } && !text.contains(" ")
        }
        self.url = scope.required("url", url).means("Endpoint that messages are posted to.")
        secretFile = scope.secretFile("secret_file")
            .means("File with the signing key (`whsec_` and base64); two lines during a rotation.")
        options.mode = scope.value("mode", .word(WebhookHandler.Mode.structured), default: "structured")
            .means("`binary`: the body is the message's `data`, headers hold the rest of the event.")
        options.batch = scope.value("batch", .number(1...1000), default: "1")
            .means("Most messages in one request; above 1 as a batch of CloudEvents.")
        if options.batch > 1, options.mode == .binary {
            scope.problem("batch", "needs mode: structured, as the headers of a binary event hold one message")
        }
        options.tls.ca = scope.optional("ca_file", .file, "the system's trust store")
            .means("Certificates to trust, PEM.")
        options.tls.certificate = scope.optional("certificate_file", .file, "none")
            .means("Our own certificate and its chain, PEM, for an endpoint that asks for one.")
        options.tls.key =
            scope.optionalSecretFile("key_file", "required with `certificate_file`")
            .means("The certificate's key, PEM.")?.path
        let lines = scope.values("headers", of: .header, "none")
            .means("Headers to add to each request, `Name: value`; no secrets.")
        headersFile = scope.optionalSecretFile("headers_file", "none")
            .means("File with more of them, one a line, read for each request: `Authorization: …`.")
        options.timeout = scope.value("timeout", .duration("100ms", "10m"), default: "15s")
            .means("Longest time for one request.")
        options.policy.allowed = scope.values("allow_networks", of: .network, "none")
            .means("Where private addresses and plain http are allowed.").compactMap(Network.init)
        let statuses = scope.values("reject_statuses", of: .number(400...499), "none")
            .means("Statuses that make a message a dead letter at once; not 408, 425 or 429.")
        options.rejectStatuses = Set(statuses)
        for status in statuses where [408, 425, 429].contains(status) {
            scope.problem("reject_statuses", "must not hold \(status), which asks for a retry")
        }
        let (isPlain, tls) = (self.url.hasPrefix("http://"), options.tls)
        if isPlain, options.policy.allowed.isEmpty {
            scope.problem("url", "is plain http, which is allowed only within 'allow_networks', and that is empty")
        }
        if tls.certificate != nil, tls.key == nil, scope.isMissing("key_file") {
            scope.problem("key_file", "is required with 'certificate_file'")
        }
        if tls.key != nil, tls.certificate == nil, scope.isMissing("certificate_file") {
            scope.problem("certificate_file", "is required with 'key_file'")
        }
        if isPlain, tls.certificate != nil { scope.problem("certificate_file", "needs an https:// URL") }
        do throws(WebhookHeaders.Refused) {
            headers = try headers.adding(lines.map { Array($0.utf8) }, holdsSecrets: false)
        } catch {
            scope.problem("headers", error.description)
        }
        if let authority = self.url.split(separator: "/").dropFirst().first, authority.contains("@") {
            scope.problem("url", "must not hold credentials; requests are signed with 'secret_file'")
        }
    }

    mutating func adapt(timeout: inout Duration) {
        // The request's own, plus time to resolve the host and read the answer.
        timeout = max(timeout, options.timeout + .seconds(5))
    }

    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body {
        guard let endpoint = HTTPEndpoint(url) else {
            throw HandlerProblem("webhook.url", "'\(url)' is not an http or https URL")
        }
        try check("secret_file", secretFile) { _ = try WebhookSigner(secrets: secretFile.lines()) }
        let headers = try requestHeaders()
        do throws(FileError) {
            return .handler(try WebhookHandler(endpoint, options, headers: headers) { try secretFile.lines() })
        } catch {
            throw HandlerProblem("webhook", error.message)
        }
    }

    /// The headers for the requests: the file is read now, to find mistakes, and for each request.
    private func requestHeaders() throws(HandlerProblem) -> @Sendable () throws -> WebhookHeaders {
        guard let file = headersFile else { return { headers } }
        let read = { @Sendable in try headers.adding(file.lines(), holdsSecrets: true) }
        try check("headers_file", file) { _ = try read() }
        return read
    }

    /// Reads a file at startup instead of at the first message.
    private func check(_ key: String, _ file: SecretFile, _ read: () throws -> Void) throws(HandlerProblem) {
        do {
            try read()
        } catch {
            throw HandlerProblem("webhook.\(key)", (error as? FileError)?.message ?? "'\(file.path)': \(error)")
        }
    }
}

extension ConfigurationType where Value == String {
    /// A header line, `Name: value`; errors give its index in the list.
    fileprivate static var header: Self { .text("header", "'Name: value'", echoes: false) { $0.contains(":") } }
}

extension WebhookKind {
    func probes(_ session: any HandlerProbeSession) -> [Probe] {
        guard let endpoint = HTTPEndpoint(url) else { return [] }
        var steps = [Probe("webhook", isNeeded: true) { await host(of: endpoint) }]
        if endpoint.tlsPort != nil { steps.append(Probe("certificate") { await serverCertificate() }) }
        if let certificate = options.tls.certificate {
            let fix = "renew webhook.certificate_file: it is read again by itself"
            steps.append(Probe("client certificate") { CertificateProbe.check(file: certificate, fix: fix) })
        }
        return steps
    }

    func certificates(_ note: (CertificateKind, Int) -> Void) async {
        if let certificate = options.tls.certificate, let end = try? CertificateEnd.remaining(.file(certificate)) {
            note(.webhookClient, end)
        }
        if let end = try? await remaining() { note(.webhook, end) }
    }

    private func host(of endpoint: HTTPEndpoint) async -> Probe.Result {
        do throws(WebhookRefusal) {
            let list = try await options.policy.addresses(of: endpoint).map(\.description).joined(separator: ", ")
            return .passed(detail: "its host is at \(list), where requests may go; none was sent")
        } catch {
            return .failed(cause: error.cause, fix: error.fix, status: error.status)
        }
    }

    /// The seconds until the certificate of the endpoint expires; connects without sending anything.
    private func remaining() async throws(CertificateProbe.Failure) -> Int {
        guard let endpoint = HTTPEndpoint(url), let port = endpoint.tlsPort else {
            throw .unreachable("no https endpoint")
        }
        guard let address = try? await options.policy.addresses(of: endpoint).first else {
            throw .unreachable("its host has no address that requests may go to")
        }
        let (host, files) = (endpoint.host, options.tls)
        var tls = TLSClientConfiguration(
            serverName: host,
            caFile: files.ca,
            section: Self.key,
            handshakeTimeout: .seconds(5)
        )
        if let certificate = files.certificate, let key = files.key {
            tls.identity = TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key))
        }
        return try await CertificateProbe.remaining(at: address, port, tls)
    }

    private func serverCertificate() async -> Probe.Result {
        do throws(CertificateProbe.Failure) {
            let end = try await remaining()
            let fix = "whoever runs the endpoint has to renew it"
            return CertificateProbe.judge(end, "the endpoint's certificate", fix: fix)
        } catch {
            switch error {
            case .unreachable(let reason):
                return .warned(
                    cause: "no connection to the endpoint, whose certificate could not be seen: \(reason)",
                    fix: "see that it runs and can be reached from here; its messages wait meanwhile"
                )
            case .refused(let reason):
                return .failed(
                    cause: reason,
                    fix: "renew the endpoint's certificate, or name its authority in webhook.ca_file",
                    status: .protocolError
                )
            }
        }
    }
}
