import Glibc
import NIOCore
import NIOPosix

enum ConnectFailure {
    /// The cause in NIO's nested error, in a few words.
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // No address was tried: the name is unknown, or has no address.
            if error.connectionErrors.isEmpty { return "the host name cannot be resolved" }
            return error.connectionErrors.map { reason($0.error) }.joined(separator: "; ")
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: return "no answer in time"
        default: return "\(error)"
        }
    }
}
