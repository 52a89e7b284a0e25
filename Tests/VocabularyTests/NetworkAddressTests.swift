import Testing
import Vocabulary

@Suite("Addresses that packets never leave this machine for, and the one address in two spellings")
struct NetworkAddressTests {
    @Test(
        "Loopback is told by the address, not by what it resembles",
        arguments: [
            ("127.0.0.1", true), ("127.255.255.254", true), ("::1", true), ("::ffff:127.0.0.1", true),
            ("126.0.0.1", false), ("128.0.0.1", false), ("0.0.0.0", false), ("10.0.0.1", false), ("::", false),
            ("::2", false), ("::127.0.0.1", false), ("64:ff9b::127.0.0.1", false), ("2002:7f00:1::", false),
            ("1::1", false), ("::ffff:126.0.0.1", false), ("::1:ffff:127.0.0.1", false),
        ]
    )
    func loopback(_ text: String, _ isLoopback: Bool) throws {
        let address = try #require(NetworkAddress(text))
        #expect(address.isLoopback == isLoopback)
        #expect((address.mappedIPv4 != nil) == text.hasPrefix("::ffff:"))
    }
}
