import ConfigurationKeys
import Synchronization
import TLSWire

/// The TLS files of a webhook: the authorities it trusts, and its own identity; a certificate and its key go together.
struct WebhookTLSFiles: Sendable, Hashable {
    var ca: String?
    /// Our certificate and the chain to its authority, PEM, for endpoints that ask for one.
    var certificate: String?
    var key: String?
}

/// The TLS settings of a webhook: everything verified, 1.2 at least, against the system's certificates or a file's, with
/// our own certificate if there is one.
///
/// The files are read again while the worker runs. A rotation replaces them one by one, and may be seen half done: the
/// last good set stays in use until all files are good again.
final class WebhookTrust: Sendable {
    struct Current: Sendable {
        var context: TLSContext
        /// Grows each time the files have changed, and ``context`` with them.
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

    private let host: String
    private let files: WebhookTLSFiles
    private let state: Mutex<State>

    /// Reads the files; throws ``FileError`` if one can't be read or holds nothing of its kind, or they don't match.
    init(_ files: WebhookTLSFiles, host: String) throws(FileError) {
        (self.host, self.files) = (host, files)
        let contents = try Self.contents(of: files)
        let current = Current(context: try Self.context(host, files, contents))
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
                state.current.context = try Self.context(host, files, contents)
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
            let bytes =
                if let path { try ConfigurationFiles.read(path, atMost: 1 << 20, isRegular: true) } else { [UInt8]() }
            contents.append(bytes)
        }
        return contents
    }

    private static func context(
        _ host: String,
        _ files: WebhookTLSFiles,
        _ contents: [[UInt8]]
    ) throws(FileError) -> TLSContext {
        var configuration = TLSClientConfiguration(serverName: host, section: WebhookKind.key)
        if let path = files.ca { configuration.trust = try certificates(contents[0], path) }
        if let path = files.certificate, let keyPath = files.key {
            let (chain, key) = (try certificates(contents[1], path), PEMSource.pem(contents[2]))
            do throws(TLSError) { try key.checkPrivateKey() } catch {
                throw FileError(path: keyPath, fault: "holds no private key in PEM form without a passphrase")
            }
            configuration.identity = TLSIdentity(certificateChain: chain, privateKey: key)
        }
        do throws(TLSError) {
            return try TLSContext.client(configuration)
        } catch {
            // Also compares the key with the certificate.
            let fault = files.certificate.map { "holds a key that is not that of the first certificate in '\($0)'" }
            throw FileError(path: files.key ?? files.ca ?? host, fault: fault ?? "can't be used: \(error.message)")
        }
    }

    private static func certificates(_ bytes: [UInt8], _ path: String) throws(FileError) -> PEMSource {
        let source = PEMSource.pem(bytes)
        do throws(TLSError) { _ = try CertificateEnd.remaining(source) } catch {
            throw FileError(path: path, fault: "holds no certificates in PEM form")
        }
        return source
    }
}
