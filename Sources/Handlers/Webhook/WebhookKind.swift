import ConfigurationKeys
import UpstreamKit
import Vocabulary

struct WebhookKind: HandlerKind {
    static let key = "webhook"

    var url: String
    var secretFile: SecretFile
    var mode: WebhookHandler.Mode
    var caFile: String?
    var certificateFile: String?
    var keyFile: SecretFile?
    var headers = WebhookHeaders()
    var headersFile: SecretFile?
    var timeout: Duration
    /// Networks, as CIDR, in which private addresses, loopback and plain http are allowed.
    var allowedNetworks: [String]
    var rejectStatuses: [Int]

    init(_ scope: ConfigurationScope) {
        let rule = "an https:// URL (http:// within allow_networks)"
        let url = ConfigurationType.text("URL", rule, echoes: false) { text in
            ["https://", "http://"].contains { text.hasPrefix($0) && text.count > $0.count } && !text.contains(" ")
        }
        self.url = scope.required("url", url).means("Endpoint that messages are posted to.")
        secretFile = scope.secretFile("secret_file")
            .means("File with the signing key (`whsec_` and base64); two lines during a rotation.")
        mode = scope.value("mode", .word(WebhookHandler.Mode.structured), default: "structured")
            .means("`binary`: the body is the message's `data`, headers hold the rest of the event.")
        caFile = scope.optional("ca_file", .file, "the system's trust store").means("Certificates to trust, PEM.")
        certificateFile = scope.optional("certificate_file", .file, "none")
            .means("Our own certificate and its chain, PEM, for an endpoint that asks for one.")
        keyFile = scope.optionalSecretFile("key_file", "required with `certificate_file`")
            .means("The certificate's key, PEM.")
        let lines =
            scope.list("headers", of: .header, "none")
            .means("Headers to add to each request, `Name: value`; no secrets.")
            ?? []
        headersFile = scope.optionalSecretFile("headers_file", "none")
            .means("File with more of them, one a line, read for each request: `Authorization: …`.")
        timeout = scope.value("timeout", .duration("100ms", "10m"), default: "15s")
            .means("Longest time for one request.")
        allowedNetworks =
            scope.list("allow_networks", of: .network, "none")
            .means("Where private addresses and plain http are allowed.")
            ?? []
        rejectStatuses =
            scope.list("reject_statuses", of: .number(400...499), "none")
            .means("Statuses that make a message a dead letter at once; not 408, 425 or 429.") ?? []
        for status in rejectStatuses where [408, 425, 429].contains(status) {
            scope.problem("reject_statuses", "must not hold \(status), which asks for a retry")
        }
        if self.url.hasPrefix("http://"), allowedNetworks.isEmpty {
            scope.problem("url", "is plain http, which is allowed only within 'allow_networks', and that is empty")
        }
        if certificateFile != nil, keyFile == nil, scope.isMissing("key_file") {
            scope.problem("key_file", "is required with 'certificate_file'")
        }
        if keyFile != nil, certificateFile == nil, scope.isMissing("certificate_file") {
            scope.problem("certificate_file", "is required with 'key_file'")
        }
        if self.url.hasPrefix("http://"), certificateFile != nil {
            scope.problem("certificate_file", "needs an https:// URL")
        }
        do throws(WebhookHeaders.Refused) {
            headers = try WebhookHeaders(lines.map { Array($0.utf8) }, holdsSecrets: false)
        } catch {
            scope.problem("headers", error.description)
        }
        if let authority = self.url.split(separator: "/").dropFirst().first, authority.contains("@") {
            scope.problem("url", "must not hold credentials; requests are signed with 'secret_file'")
        }
    }

    var policy: NetworkPolicy { NetworkPolicy(allowed: allowedNetworks.compactMap(Network.init)) }

    mutating func adapt(timeout: inout Duration) {
        // The request's own, plus time to resolve the host and read the answer.
        timeout = max(timeout, self.timeout + .seconds(5))
    }

    func body(_ common: HandlerCommon) throws(HandlerProblem) -> HandlerRegistration.Body {
        guard let endpoint = WebhookEndpoint(url) else {
            throw HandlerProblem("webhook.url", "'\(url)' is not an http or https URL")
        }
        try check("secret_file", secretFile) { _ = try WebhookSigner(secrets: secretFile.lines()) }
        let options = WebhookHandler.Options(
            endpoint: endpoint,
            timeout: timeout,
            policy: policy,
            connections: common.concurrency,
            mode: mode,
            tls: WebhookTLSFiles(ca: caFile, certificate: certificateFile, key: keyFile?.path),
            rejectStatuses: Set(rejectStatuses)
        )
        let headers = try requestHeaders()
        do throws(FileError) {
            return .handler(try WebhookHandler(options: options, headers: headers) { try secretFile.lines() })
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
