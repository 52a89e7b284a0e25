import UpstreamKit
import Vocabulary

extension MessageKey {
    /// Parses a key from the command line.
    ///
    /// - Parameters:
    ///   - text: The key.
    ///   - name: The option or argument, for the error.
    /// - Throws: A usage error that shows what a key looks like.
    init(_ text: String, for name: String) throws(CommandFailure) {
        guard let key = MessageKey(text) else {
            throw CommandFailure(.usage, "\(name) takes a message_key: 8-4-4-4-12 hex digits")
        }
        self = key
    }
}
