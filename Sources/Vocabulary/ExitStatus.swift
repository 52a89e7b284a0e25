/// The meaning of a command's exit code (`sysexits.h`).
package enum ExitStatus: Int32, CaseIterable, Sendable {
    /// Success.
    case ok = 0
    /// A negative answer: something is missing, or not as asked.
    case negative = 1
    /// The command line is wrong.
    case usage = 64
    /// The input's data is wrong.
    case badData = 65
    /// The input does not exist.
    case noInput = 66
    /// The database or the peer is down.
    case unavailable = 69
    /// A bug of ours.
    case internalError = 70
    /// A retry may succeed: for example after a shutdown that exceeded its grace.
    case temporaryFailure = 75
    /// The peer broke the protocol.
    case protocolError = 76
    /// Refused: SASL, or a role's rights.
    case refused = 77
    /// The configuration has errors.
    case configuration = 78
}
