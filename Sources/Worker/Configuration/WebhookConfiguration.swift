/// An HTTP endpoint that takes messages.
package struct WebhookConfiguration: Sendable, Equatable {
    /// How a CloudEvent stands in a request.
    package enum Mode: String, CaseIterable, Sendable {
        /// The body is the event.
        case structured
        /// The body is the message's data, headers hold the rest.
        case binary
    }

    /// The endpoint.
    package var url: String
    /// Where the signing keys stand, one a line (`whsec_` and base64).
    package var secretFile: SecretFile
    /// How the event stands in the request.
    package var mode: Mode
    /// Certificates to trust instead of the system's, PEM.
    package var caFile: String?
    /// How long one request may take.
    package var timeout: Duration
    /// The networks within which private addresses, loopback and plain http are allowed, as CIDR.
    package var allowedNetworks: [String]
    /// The statuses that refuse a message for good.
    package var rejectStatuses: [Int]

    init(_ scope: ConfigurationScope) {
        let url = ConfigurationType.text("URL", "an https:// URL (http:// within allow_networks)") { text in
            ["https://", "http://"].contains { text.hasPrefix($0) && text.count > $0.count } && !text.contains(" ")
        }
        self.url = scope.required("url", url, "Endpoint that messages are posted to.")
        secretFile = scope.secretFile(
            "secret_file",
            "File with the signing key (`whsec_` and base64); two lines during a rotation."
        )
        mode = scope.value(
            "mode",
            .word(Mode.structured),
            default: "structured",
            "`binary`: the body is the message's `data`, headers hold the rest of the event."
        )
        caFile = scope.optional("ca_file", .file, "the system's trust store", "Certificates to trust, PEM.")
        timeout = scope.value("timeout", .duration("100ms", "10m"), default: "15s", "Longest time for one request.")
        allowedNetworks =
            scope.list("allow_networks", of: .network, "none", "Where private addresses and plain http are allowed.")
            ?? []
        rejectStatuses =
            scope.list(
                "reject_statuses",
                of: .number(400...499),
                "none",
                "Statuses that make a message a dead letter at once; not 408, 425 or 429."
            ) ?? []
        for status in rejectStatuses where [408, 425, 429].contains(status) {
            scope.problem("reject_statuses", "must not hold \(status), which asks for a retry")
        }
        if self.url.hasPrefix("http://"), allowedNetworks.isEmpty {
            scope.problem("url", "is plain http, which is allowed only within 'allow_networks', and that is empty")
        }
        if let authority = self.url.split(separator: "/").dropFirst().first, authority.contains("@") {
            scope.problem("url", "must not hold credentials; requests are signed with 'secret_file'")
        }
    }
}
