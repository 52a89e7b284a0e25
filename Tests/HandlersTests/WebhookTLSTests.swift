import ConfigurationKeys
import DNS
import Dispatcher
import Foundation
import HTTPWire
import Synchronization
import TLSWire
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

/// The certificate of a webhook's endpoint, against a TLS server that is not ours.
@Suite(.serialized, .timeLimit(.minutes(10))) struct WebhookTLSTests {
    /// Files that go away with their owner.
    private final class Folder: Sendable {
        let url = URL(fileURLWithPath: "/tmp/upstream-webhook-tls-\(UUID().uuidString)")

        init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

        deinit { try? FileManager.default.removeItem(at: url) }

        func write(_ bytes: [UInt8], as name: String) throws -> String {
            let file = url.appendingPathComponent(name)
            try Data(bytes).write(to: file)
            return file.path
        }
    }

    private func verdict(
        host: String = "endpoint.invalid",
        certificate: CertificateRequest = CertificateRequest(dnsNames: ["endpoint.invalid"]),
        trusting other: CertificateAuthority? = nil,
        usesFile: Bool = true
    ) async throws -> HandlerVerdict {
        let folder = try Folder()
        let authority = try CertificateAuthority()
        let issued = try authority.issue(certificate)
        let chain = try folder.write(issued.chainPEM, as: "chain.pem")
        let key = try folder.write(issued.keyPEM, as: "key.pem")
        let caFile = try folder.write((other ?? authority).certificatePEM, as: "ca.pem")
        let receiver = try WebhookReceiver(certificate: (chain, key))
        return try await post(
            to: "https://\(host):\(receiver.port)/status?code=200",
            trusting: usesFile ? caFile : nil
        )
    }

    /// Posts one message to an endpoint on this machine, whatever its host's name.
    private func post(to url: String, trusting caFile: String?) async throws -> HandlerVerdict {
        let handler = try WebhookHandler(
            try #require(HTTPEndpoint(url)),
            WebhookHandler.Options(
                timeout: .seconds(20),
                policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init)),
                tls: WebhookTLSFiles(ca: caFile)
            ),
            resolver: AddressResolver { _ in ["127.0.0.1"].compactMap(NetworkAddress.init) }
        ) { [Array(WebhookReceiver.secret.utf8)] }
        let message = UpstreamMessage.sample(category: "c", data: "{}")
        let verdict = await HandlerVerdict.of(handler, message, HandlerContext(handler: "h"))
        await handler.shutdown()
        return verdict
    }

    private func isRefused(_ verdict: HandlerVerdict) -> Bool {
        guard case .down(_, _, let failure) = verdict else { return false }
        return !failure.group.contains("status") && !failure.group.contains("timeout")
    }

    @Test("A private authority is trusted only where it is configured")
    func anAuthorityOfOnesOwnIsTrustedWhereItIsNamed() async throws {
        #expect(try await verdict() == .done)
        #expect(isRefused(try await verdict(usesFile: false)), "the system does not trust it")
        #expect(isRefused(try await verdict(trusting: try CertificateAuthority())), "another one does not vouch for it")
    }

    @Test("A certificate for another name is refused")
    func aCertificateForAnotherNameIsRefused() async throws {
        #expect(isRefused(try await verdict(host: "other.invalid")))
    }

    @Test("An expired certificate is refused")
    func aCertificateThatHasExpiredIsRefused() async throws {
        let request = CertificateRequest(dnsNames: ["endpoint.invalid"], validity: -7200 ... -3600)
        #expect(isRefused(try await verdict(certificate: request)))
    }

    /// `openssl s_server`, limited to one version of TLS, tells whether it has seen a handshake through.
    @Test(
        "TLS versions before 1.2 are refused, with and without a CA file",
        arguments: [("-tls1", false), ("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)]
    )
    func versionsBefore12AreRefusedWithAndWithoutAFile(_ version: String, _ isTaken: Bool) async throws {
        for usesFile in [true, false] {
            let server = try VersionedServer(version)
            let caFile = server.folder.url.appending(path: "ca.pem").path
            let verdict = try await post(
                to: "https://endpoint.invalid:\(server.port)/",
                trusting: usesFile ? caFile : nil
            )
            let text = server.end()
            if usesFile { #expect((verdict == .done) == isTaken, "\(verdict) \(text)") }
            // Without the file the certificate is not trusted; but only then is it looked at.
            let isVersion = text.contains("unsupported protocol") || text.contains("alert protocol version")
            #expect(isVersion != isTaken, "\(text)")
        }
    }

    /// A server that answers 204 to a request.
    private final class VersionedServer: Sendable {
        /// What it printed, and whether it was told to answer.
        private typealias Talk = (text: String, isAnswered: Bool)

        let folder: Folder
        let port: Int
        private let process = Process()
        private let output = Pipe()
        private let input = Pipe()
        private let talk = Mutex<Talk>(("", false))

        init(_ version: String) throws {
            folder = try Folder()
            let authority = try CertificateAuthority()
            let issued = try authority.issue(CertificateRequest(dnsNames: ["endpoint.invalid"]))
            let chain = try folder.write(issued.chainPEM, as: "chain.pem")
            let key = try folder.write(issued.keyPEM, as: "key.pem")
            _ = try folder.write(authority.certificatePEM, as: "ca.pem")
            process.executableURL = URL(filePath: "/usr/bin/openssl")
            process.arguments = [
                "s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert", chain, "-key", key, version,
                "-cipher", "DEFAULT@SECLEVEL=0",
            ]
            process.standardInput = input
            process.standardOutput = output
            process.standardError = output
            try process.run()
            var text = ""
            while !text.contains("ACCEPT 127.0.0.1:") || text.last != "\n" {
                let more = output.fileHandleForReading.availableData
                try #require(!more.isEmpty, "\(text)")
                text += String(decoding: more, as: UTF8.self)
            }
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("ACCEPT") })
            port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
            output.fileHandleForReading.readabilityHandler = { [unowned self] in took($0.availableData) }
        }

        /// Answers when the request is printed: what comes before it answers nothing, and ends the connection.
        private func took(_ more: Data) {
            let answers = talk.withLock { talk in
                talk.text += String(decoding: more, as: UTF8.self)
                guard !talk.isAnswered, talk.text.contains("POST /") else { return false }
                talk.isAnswered = true
                return true
            }
            if answers {
                input.fileHandleForWriting.write(Data("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".utf8))
            }
        }

        /// What it printed until its end.
        func end() -> String {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
            output.fileHandleForReading.readabilityHandler = nil
            let rest = output.fileHandleForReading.readDataToEndOfFile()
            return talk.withLock { $0.text + String(decoding: rest, as: UTF8.self) }
        }

        deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
    }

    @Test("A CA file without certificates is refused at startup")
    func aFileWithoutCertificatesIsRefusedAtTheStart() throws {
        let folder = try Folder()
        for (name, text) in [("empty.pem", ""), ("rubbish.pem", "not a certificate")] {
            let file = try folder.write(Array(text.utf8), as: name)
            #expect(throws: FileError.self) { try WebhookTrust(WebhookTLSFiles(ca: file), host: "endpoint.invalid") }
        }
        #expect(throws: FileError.self) {
            try WebhookTrust(WebhookTLSFiles(ca: "/nowhere/ca.pem"), host: "endpoint.invalid")
        }
    }
}
