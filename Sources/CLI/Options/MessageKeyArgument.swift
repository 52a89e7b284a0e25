import ArgumentParser
import UpstreamKit
import Worker

extension MessageKey {
    /// Reads a key from the command line.
    ///
    /// - Parameters:
    ///   - text: What was given.
    ///   - name: The option or argument that it was given for.
    /// - Throws: A usage error that says what a key looks like.
    init(_ text: String, for name: String) throws(CommandFailure) {
        guard let key = MessageKey(text) else {
            throw CommandFailure(.usage, "\(name) takes a message_key: 8-4-4-4-12 hex digits")
        }
        self = key
    }
}
