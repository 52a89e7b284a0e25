import Digests
import Testing
import Vocabulary

/// The published examples of the hash functions, of HMAC and of PBKDF2.
@Suite struct HashFunctionTests {
    @Test("FIPS 180-4")
    func digests() {
        #expect(
            Hex.encode(HashFunction.sha1.digest(of: Array("abc".utf8)))
                == "a9993e364706816aba3e25717850c26c9cd0d89d"
        )
        #expect(
            Hex.encode(HashFunction.sha256.digest(of: Array("abc".utf8)))
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        )
        #expect(
            Hex.encode(HashFunction.sha512.digest(of: Array("abc".utf8)))
                == "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        )
        #expect(
            Hex.encode(HashFunction.sha1.digest(of: [])) == "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        )
    }

    @Test("RFC 2202 and RFC 4231, the second case of each")
    func codes() {
        let message = Array("what do ya want for nothing?".utf8)
        let key = Array("Jefe".utf8)
        #expect(
            Hex.encode(HashFunction.sha1.code(for: message, key: key))
                == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
        )
        #expect(
            Hex.encode(HashFunction.sha256.code(for: message, key: key))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        )
        #expect(
            Hex.encode(HashFunction.sha512.code(for: message, key: key))
                == "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                + "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        )
        #expect(HashFunction.sha1.code(for: [], key: []).count == 20)
    }

    @Test(
        "RFC 6070, and the same inputs with SHA-256",
        arguments: [
            (HashFunction.sha1, 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
            (HashFunction.sha1, 2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"),
            (HashFunction.sha1, 4_096, "4b007901b765489abead49d926f721d065a429c1"),
            (HashFunction.sha256, 1, "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b"),
            (HashFunction.sha256, 4_096, "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a"),
            (
                HashFunction.sha512, 4_096,
                "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5"
                    + "143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5"
            ),
        ]
    )
    func derivations(_ hash: HashFunction, _ iterations: Int, _ expected: String) {
        let key = hash.derive(password: Array("password".utf8), salt: Array("salt".utf8), iterations: iterations)
        #expect(Hex.encode(key) == expected)
        #expect(key.count == hash.length)
    }

    @Test("Deriving from empty input does not trap")
    func nothingAtAllIsDerivedFromWithoutATrap() {
        for hash in HashFunction.allCases {
            #expect(hash.derive(password: [], salt: [], iterations: -1).count == hash.length)
        }
    }

    @Test("Constant-time comparison tells equal bytes from different ones and other lengths")
    func equality() {
        #expect(ConstantTime.areEqual([], []))
        #expect(ConstantTime.areEqual([1, 2], [1, 2]))
        #expect(!ConstantTime.areEqual([1, 2], [1, 3]))
        #expect(!ConstantTime.areEqual([1, 2], [1]))
    }
}
