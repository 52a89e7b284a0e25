import Digests
package import UpstreamKit

extension DeviceKey {
    /// The key of the device that holds this token: the first 16 bytes of its SHA-256.
    package init(of token: RegistrationToken) {
        var token = token.rawValue
        var hash = SHA256()
        token.withUTF8 { hash.update(UnsafeRawBufferPointer($0)) }
        self.init(hash.finish128())
    }
}
