import ConfigurationKeys
import Foundation
import IntegrationSupport
import Logging
import Testing

@testable import Handlers
@testable import UpstreamConfiguration
@testable import Worker

struct WebhookConfigurationTests {
    private let folder: ConfigurationTests.Folder

    init() throws { folder = try ConfigurationTests.Folder() }

    private func read(_ yaml: String) throws(ConfigurationError) -> WorkerConfiguration {
        try ConfigurationLoader(environment: [:])
            .read(yaml: yaml.replacing("SECRET", with: folder.secret), path: "worker.yaml").configuration
    }

    private func problems(_ yaml: String) -> [String] {
        do throws(ConfigurationError) {
            _ = try read(yaml)
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    private let minimal =
        "database: {url: 'postgresql:///upstream'}\nsenders:\n  - {sender_id: '1', host: xmpp.example.com, secret_file: SECRET}\n"

    @Test("statuses that ask for another try, or that are no refusal, can't be among those that refuse for good")
    func rejectStatuses() throws {
        let handlers = """

            handlers:
              - {name: h, categories: ["*"], webhook: {url: "https://a.example", secret_file: SECRET, reject_statuses: [LIST]}}
            """
        for status in [200, 301, 408, 425, 429, 500, 503] {
            let found = problems(minimal + handlers.replacing("LIST", with: "\(status)"))
            #expect(found.count == 1 && found[0].contains("reject_statuses"), "\(found)")
        }
        let yaml = (minimal + handlers.replacing("LIST", with: "400, 410, 422")).replacing(
            "SECRET",
            with: folder.secret
        )
        let configuration = try read(yaml)
        let webhook = try #require(configuration.handlers[0].kind as? WebhookKind)
        #expect(webhook.options.rejectStatuses == [400, 410, 422])
    }

    @Test(
        "a wrong URL or header is refused without being repeated: it may be a credential",
        arguments: [
            ("url: 'HTTPS://u:FAKE@a.example'", "url"), ("url: 'https://u:FAKE@a.example'", "url"),
            ("url: 'ftp://a.example/FAKE'", "url"), ("url: 'https://a.example', headers: ['X-Key FAKE']", "headers"),
            ("url: 'https://a.example', headers: ['Authorization: FAKE']", "headers"),
        ]
    )
    func unrepeated(_ keys: String, _ key: String) {
        let handlers = "handlers:\n  - {name: h, categories: ['*'], webhook: {secret_file: SECRET, \(keys)}}\n"
        let found = problems(minimal + handlers)
        #expect(found.count == 1 && found[0].contains("handlers.0.webhook.\(key)"), "\(found)")
        #expect(!found.joined().contains("FAKE"), "\(found)")
    }

    @Test("a webhook's secret of another form is found at the start, and never shown")
    func webhookSecret() throws {
        let handlers = """

            handlers:
              - {name: h, categories: ["*"], webhook: {url: "https://a.example", secret_file: FILE}}
            """
        let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        func check(_ content: String) throws {
            try folder.write("webhook", content, 0o600)
            let yaml = minimal.replacing("SECRET", with: folder.secret)
            let path = folder.path + "/webhook"
            let configuration = try read(yaml + handlers.replacing("FILE", with: path))
            let logger = Logger.quiet
            try WorkerRuntime.validate(configuration, logger: logger)
        }
        for content in [good, good + "\n", "\(good)\r\n\(good)\n"] { try check(content) }
        let bad = [
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", good + " \n", good + "\0", "hunter2", "whsec_MfKQ9r8G",
            "\(good)\n\(good)\n\(good)\n",
        ]
        for content in bad {
            do throws(WorkerError) {
                do { try check(content) } catch let error as WorkerError { throw error } catch { continue }
                Issue.record("\(content) passes")
            } catch {
                let text = error.description
                #expect(text.contains("handlers.0.webhook.secret_file") && text.contains("/webhook'"), "\(text)")
                #expect(!text.contains("MfKQ") && !text.contains("hunter2"), "\(text)")
            }
        }
    }
}
