/// What a command's exit code says (`sysexits.h`).
package enum ExitStatus: Int32, CaseIterable, Sendable {
    /// Done.
    case ok = 0
    /// The answer is no: something is missing, or not as asked.
    case negative = 1
    /// The command line is wrong.
    case usage = 64
    /// The input's data is wrong.
    case badData = 65
    /// There is no such input.
    case noInput = 66
    /// The database or the peer is down.
    case unavailable = 69
    /// Our own mistake.
    case internalError = 70
    /// It may work later: for example a shutdown that took longer than its grace.
    case temporaryFailure = 75
    /// The peer broke the protocol.
    case protocolError = 76
    /// Refused: SASL, or a role's rights.
    case refused = 77
    /// Something in the configuration is wrong.
    case configuration = 78
}
