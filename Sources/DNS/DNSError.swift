/// Why a look-up gave no answer that can be used.
package enum DNSError: Error, Sendable, Equatable {
    /// No name server answered in time, or none had a usable answer (a failure of its own, a refusal).
    case noAnswer
    /// The answer is an error of this code (RFC 1035 section 4.1.1), other than that the name does not exist.
    case refused(code: UInt8)
    /// The answer breaks the grammar of RFC 1035.
    case malformed
    /// The answer is incomplete, over TCP as well.
    case truncated
    /// Names that stand for each other go on for too long, or in a circle.
    case aliasLoop
    /// The name is none that can be asked for.
    case badName

    /// What happened, for an operator.
    package var message: String {
        switch self {
        case .noAnswer:
            "no name server gave a usable answer in time: check /etc/resolv.conf, and the domain's name servers"
        case .refused(let code): "the name server answered with error \(code)"
        case .malformed: "the name server's answer can't be read"
        case .truncated: "the name server's answer is incomplete"
        case .aliasLoop: "the name is an alias that leads nowhere"
        case .badName: "the name can't be looked up"
        }
    }
}
