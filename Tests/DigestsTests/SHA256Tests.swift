import Digests
import Testing
import Vocabulary

/// The examples of FIPS 180-4 and the properties that the tables rely on.
@Suite struct SHA256Tests {
    @Test(
        "The published examples of SHA-256 have their digests",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ]
    )
    func publishedExamples(_ text: String, _ digest: String) {
        #expect(Hex.encode(HashFunction.sha256.digest(of: Array(text.utf8))) == digest)
        var hash = SHA256()
        Array(text.utf8).withUnsafeBytes { hash.update($0) }
        let uuid = hash.finish128().description.filter { $0 != "-" }
        #expect(uuid == digest.prefix(32))
    }

    @Test("A digest does not depend on how its input is split")
    func theCutIntoPartsDoesNotMatter() {
        let bytes = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let whole = HashFunction.sha256.digest(of: bytes)
        for cut in 0...bytes.count {
            var hash = SHA256()
            bytes[..<cut].withUnsafeBytes { hash.update($0) }
            bytes[cut...].withUnsafeBytes { hash.update($0) }
            #expect(hash.finish() == whole)
        }
        var byteByByte = SHA256()
        for byte in bytes { byteByByte.update(byte) }
        #expect(byteByByte.finish() == whole)
    }

    @Test("A copied hash continues on its own")
    func aCopyContinuesByItself() {
        var prefix = SHA256()
        Array("ab".utf8).withUnsafeBytes { prefix.update($0) }
        var first = prefix
        first.update(UInt8(ascii: "c"))
        var second = prefix
        second.update(UInt8(ascii: "d"))
        #expect(first.finish() == HashFunction.sha256.digest(of: Array("abc".utf8)))
        #expect(second.finish() == HashFunction.sha256.digest(of: Array("abd".utf8)))
    }

    @Test("Lengths are hashed big-endian")
    func lengthsAreBigEndian() {
        var hash = SHA256()
        hash.update(bigEndian: 0x0102_0304_0506_0708)
        #expect(hash.finish() == HashFunction.sha256.digest(of: [1, 2, 3, 4, 5, 6, 7, 8]))
    }
}
