/// The registration token of the app instance that sent a message: whoever holds it can send to that device.
///
/// Every conversion to text (`print`, interpolation, `dump`, a debugger) shows a mask.
public struct RegistrationToken: Hashable, Sendable {
    /// The token itself.
    ///
    /// - Warning: Keep it out of logs, metrics, error texts and process arguments.
    public let rawValue: String

    /// The token with this text.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    /// Byte equality: tokens that differ only in Unicode normalisation are different devices.
    public static func == (lhs: RegistrationToken, rhs: RegistrationToken) -> Bool {
        lhs.rawValue.utf8.elementsEqual(rhs.rawValue.utf8)
    }

    /// Hashes the UTF-8 bytes, as equality compares them.
    public func hash(into hasher: inout Hasher) {
        for byte in rawValue.utf8 { hasher.combine(byte) }
    }
}

extension RegistrationToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A mask, the same for every token.
    public var description: String { "<registration token>" }

    /// A mask, the same for every token.
    public var debugDescription: String { description }

    /// Shows no children, so that `dump` and test failures stay masked too.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
