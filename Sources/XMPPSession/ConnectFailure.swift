import Glibc
import NIOCore
import NIOPosix

/// Why a TCP connection could not be made.
enum ConnectFailure {
    /// What stands behind NIO's nested error, in a few words.
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // Nothing was connected to: the name is unknown, or has no address.
            if error.connectionErrors.isEmpty { return "the host name cannot be resolved" }
            return error.connectionErrors.map { reason($0.error) }.joined(separator: "; ")
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: return "no answer in time"
        default: return "\(error)"
        }
    }
}
