/// Why a look-up gave no usable answer.
package enum DNSError: Error, Sendable, Equatable {
    case noAnswer, malformed, truncated, aliasLoop, badName
    /// The answer is an error with this code (RFC 1035 section 4.1.1), other than "no such name".
    case refused(code: UInt8)

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
