import Digests
package import UpstreamKit
import Vocabulary

extension DeviceKey {
    /// The key of the device that holds this token: the first 16 bytes of its SHA-256.
    package init(of token: RegistrationToken) {
        self.init(Digest128(hashing: token.rawValue))
    }
}
