import Digests
import HTTPTypes
import Hummingbird
import Vocabulary

/// Finds out who sent a request.
package final class ConsoleAccess: Sendable {
    private let tokens: [(digest: [UInt8], principal: Principal)]

    /// Access by these tokens.
    ///
    /// - Throws: What reading a token throws.
    package init(tokens: [ConsoleToken]) throws {
        self.tokens = try tokens.flatMap { token in
            try token.secrets().map { (HashFunction.sha256.digest(of: $0), token.principal) }
        }
    }

    /// Who sent a request; nil where nothing was proven.
    func principal(of request: Request) -> Principal? {
        guard let value = request.headers[.authorization], value.hasPrefix("Bearer ") else { return nil }
        let digest = HashFunction.sha256.digest(of: Array(value.utf8.dropFirst("Bearer ".utf8.count)))
        // Compared with each, so that the time tells nothing.
        var found: Principal?
        for token in tokens where ConstantTime.areEqual(token.digest, digest) { found = token.principal }
        return found
    }
}
