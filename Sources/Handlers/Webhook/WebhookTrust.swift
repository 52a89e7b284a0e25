import ConfigurationKeys
import NIOSSL
import Synchronization

/// The TLS files of a webhook: the authorities it trusts, and its own identity; a certificate and its key go together.
struct WebhookTLSFiles: Sendable, Hashable {
    var ca: String?
    /// Our certificate and the chain to its authority, PEM, for endpoints that ask for one.
    var certificate: String?
    var key: String?
}

/// The TLS settings of webhooks: everything verified, 1.2 at least, against the system's certificates or a file's, with
/// our own certificate if there is one.
///
/// The files are read again while the worker runs. A rotation replaces them one by one, and may be seen half done: the
/// last good set stays in use until all files are good again.
final class WebhookTrust: Sendable {
    struct Current: Sendable {
        var configuration: TLSConfiguration
        /// Grows each time the files have changed.
        var generation = 0
        /// Why the present files can't be used; nil if they are in use.
        var problem: String?
    }

    /// The minimum interval between two readings of the files.
    static let interval = Duration.seconds(1)

    private struct State {
        var current: Current
        var contents: [[UInt8]]
        var read: ContinuousClock.Instant
    }

    private let files: WebhookTLSFiles
    private let state: Mutex<State>

    /// Reads the files; throws ``FileError`` if one can't be read or holds nothing of its kind, or they don't match.
    init(_ files: WebhookTLSFiles) throws(FileError) {
        self.files = files
        let contents = try Self.contents(of: files)
        let current = Current(configuration: try Self.configuration(files, contents))
        state = Mutex(State(current: current, contents: contents, read: .now))
    }

    func current(now: ContinuousClock.Instant = .now) -> Current {
        state.withLock { state in
            guard files != WebhookTLSFiles(), state.read.duration(to: now) >= Self.interval else {
                return state.current
            }
            state.read = now
            do throws(FileError) {
                let contents = try Self.contents(of: files)
                state.current.problem = nil
                guard contents != state.contents else { return state.current }
                state.current.configuration = try Self.configuration(files, contents)
                state.current.generation += 1
                state.contents = contents
            } catch {
                state.current.problem = error.message
            }
            return state.current
        }
    }

    /// The contents of `ca`, `certificate` and `key`, as far as they are named.
    private static func contents(of files: WebhookTLSFiles) throws(FileError) -> [[UInt8]] {
        var contents: [[UInt8]] = []
        for path in [files.ca, files.certificate, files.key] {
            let bytes = if let path { try ConfigurationFiles.read(path, atMost: 1 << 20) } else { [UInt8]() }
            contents.append(bytes)
        }
        return contents
    }

    private static func configuration(
        _ files: WebhookTLSFiles,
        _ contents: [[UInt8]]
    ) throws(FileError) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        // The library's own default is 1.0.
        configuration.minimumTLSVersion = .tlsv12
        if let path = files.ca {
            configuration.trustRoots = .certificates(try certificates(contents[0], path))
        }
        guard let path = files.certificate, let keyPath = files.key else { return configuration }
        configuration.certificateChain = try certificates(contents[1], path).map { .certificate($0) }
        do {
            configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: contents[2], format: .pem))
        } catch {
            throw FileError(path: keyPath, fault: "holds no private key in PEM form without a passphrase")
        }
        do {
            // Compares the two, which would otherwise happen only with the first connection.
            _ = try NIOSSLContext(configuration: configuration)
        } catch {
            throw FileError(path: keyPath, fault: "holds a key that is not that of the first certificate in '\(path)'")
        }
        return configuration
    }

    private static func certificates(_ bytes: [UInt8], _ path: String) throws(FileError) -> [NIOSSLCertificate] {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMBytes(bytes)
        } catch {
            throw FileError(path: path, fault: "holds no certificates in PEM form: \(error)")
        }
        guard !certificates.isEmpty else { throw FileError(path: path, fault: "holds no certificate") }
        return certificates
    }
}
