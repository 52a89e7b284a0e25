import Foundation

/// The endpoint of `Tests/Tools/webhook_receiver.py`, running on the loopback address.
final class WebhookReceiver: Sendable {
    /// Signs in all tests; made for them.
    static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    /// Why there is no endpoint.
    struct Unavailable: Error {
        var message: String
    }

    /// Where it listens.
    let port: Int
    private let input: Pipe

    /// Starts it with the Python of `UPSTREAM_TEST_PYTHON`, else of `.build/test-tools`, which must have the packages of
    /// `Tests/Tools/requirements.txt`.
    ///
    /// - Parameters:
    ///   - certificate: Files with the certificate's chain and key; without them the endpoint is plain.
    ///   - clientAuthority: A file with the authority whose certificates are demanded of clients.
    /// - Throws: ``Unavailable``
    init(certificate: (chain: String, key: String)? = nil, clientAuthority: String? = nil) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let package = root.deletingLastPathComponent()
        let python =
            ProcessInfo.processInfo.environment["UPSTREAM_TEST_PYTHON"]
            ?? package.appendingPathComponent(".build/test-tools/bin/python3").path
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Unavailable(message: "no \(python); make it with scripts/install-test-tools")
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: python)
        process.arguments =
            [root.appendingPathComponent("Tools/webhook_receiver.py").path, Self.secret]
            + (certificate.map { [$0.chain, $0.key] } ?? []) + (clientAuthority.map { [$0] } ?? [])
        input = Pipe()
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let part = output.fileHandleForReading.availableData
            guard !part.isEmpty else { throw Unavailable(message: "webhook_receiver.py ended at once") }
            line += part
        }
        guard let port = Int(String(decoding: line, as: UTF8.self).trimmingCharacters(in: .newlines)) else {
            throw Unavailable(message: "webhook_receiver.py printed no port")
        }
        self.port = port
    }

    deinit {
        // The end of its input ends it.
        try? input.fileHandleForWriting.close()
    }
}
