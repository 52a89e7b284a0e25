/// A token that lets its holder in.
package struct ConsoleToken: Sendable {
    /// Whom it stands for.
    package var principal: Principal
    /// Reads the secret values: two are valid at once while one replaces the other.
    ///
    /// Asked again from time to time, so that a rotated file takes effect without a restart.
    package var secrets: @Sendable () throws -> [[UInt8]]

    package init(_ principal: Principal, secrets: @escaping @Sendable () throws -> [[UInt8]]) {
        self.principal = principal
        self.secrets = secrets
    }
}
