import Testing
import Vocabulary

@Suite("bytes as text")
struct BytesTests {
    @Test("every byte has two hex digits, which are read back in either case")
    func hex() {
        let all = (0...255).map { UInt8($0) }
        let text = Hex.encode(all)
        #expect(text.hasPrefix("000102030405060708090a0b0c0d0e0f10") && text.hasSuffix("fcfdfeff"))
        for byte in all {
            #expect(String(decoding: [Hex.digit(byte)], as: UTF8.self) == String(byte & 15, radix: 16))
            let upper = String(byte & 15, radix: 16, uppercase: true)
            #expect(String(decoding: [Hex.upperDigit(byte)], as: UTF8.self) == upper)
            #expect(Hex.value(Hex.digit(byte)) == byte & 15 && Hex.value(Hex.upperDigit(byte)) == byte & 15)
        }
    }

    @Test("any byte but the 22 digits is not hex")
    func hexRefusals() {
        #expect((0...255).filter { Hex.value(UInt8($0)) != nil }.count == 22)
    }

    @Test("a number is written with all its digits")
    func hexNumbers() {
        #expect(Hex.encode(UInt16(0x0A)) == "000a")
        #expect(Hex.encode(UInt64.max) == "ffffffffffffffff")
        #expect(Hex.encode(UInt64(0)) == "0000000000000000")
    }

    @Test("base64 agrees with RFC 4648's examples, and what is not canonical is refused")
    func base64() {
        for (text, encoded) in [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            #expect(Base64.text(Array(text.utf8)) == encoded)
            #expect(Base64.encode(Array(text.utf8)) == Array(encoded.utf8))
            #expect(Base64.decode(encoded.utf8) == Array(text.utf8))
        }
        let bad = [
            "Zg", "Zg=", "Zh==", "Zg===", "=", "Z", "Zm9=", "Zm9v=", "Zg==Zg==", "Zm 8=", "Zm8\n=", "A===", "AA=A",
            "AB==", "AAB=", "A A=", "AAAA=", "====", "Zm9v====", "Zm9v\u{0}", "Zm-_",
        ]
        for text in bad { #expect(Base64.decode(text.utf8) == nil, "\(text)") }
    }

    @Test("random bytes survive base64")
    func roundTrips() {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<500 {
            let bytes = random.bytes(upTo: 70)
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
    }

    @Test("FNV-1a gives its published values")
    func fnv() {
        #expect(FNV1a.hash("") == 0xCBF2_9CE4_8422_2325)
        #expect(FNV1a.hash("a") == 0xAF63_DC4C_8601_EC8C)
        #expect(FNV1a.hash("foobar") == 0x8594_4171_F739_67E8)
    }
}

@Suite("128-bit digests")
struct Digest128Tests {
    @Test("the text form is PostgreSQL's, and is read back in either case")
    func text() {
        let digest = Digest128(high: 0x0001_0203_0405_0607, low: 0x0809_0A0B_0C0D_0EFF)
        #expect(digest.description == "00010203-0405-0607-0809-0a0b0c0d0eff")
        #expect(Digest128(uuid: digest.description.utf8) == digest)
        #expect(Digest128(uuid: digest.description.uppercased().utf8) == digest)
    }

    @Test("any other text is no digest")
    func refusals() {
        let text = "00010203-0405-0607-0809-0a0b0c0d0eff"
        for end in 0..<text.count { #expect(Digest128(uuid: text.utf8.prefix(end)) == nil) }
        #expect(Digest128(uuid: (text + "0").utf8) == nil)
        for place in 0..<text.count {
            for byte in [UInt8(ascii: "-"), UInt8(ascii: "g"), 0, 0xFF] where Array(text.utf8)[place] != byte {
                var bytes = Array(text.utf8)
                bytes[place] = byte
                #expect(Digest128(uuid: bytes) == nil)
            }
        }
    }

    @Test("order is that of the text form")
    func order() {
        var random = SeededGenerator(seed: 13)
        for _ in 0..<500 {
            let left = Digest128(high: .random(in: 0...3, using: &random), low: random.next())
            let right = Digest128(high: .random(in: 0...3, using: &random), low: random.next())
            #expect((left < right) == (left.description < right.description))
            #expect(Digest128(uuid: left.description.utf8) == left)
        }
    }
}
