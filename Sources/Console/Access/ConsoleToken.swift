/// A token that grants access.
package struct ConsoleToken: Sendable {
    package var principal: Principal
    /// Reads the secret values; during a rotation two are valid at once.
    ///
    /// Called repeatedly, so that a rotated file takes effect without a restart.
    package var secrets: @Sendable () throws -> [[UInt8]]

    package init(_ principal: Principal, secrets: @escaping @Sendable () throws -> [[UInt8]]) {
        self.principal = principal
        self.secrets = secrets
    }
}
