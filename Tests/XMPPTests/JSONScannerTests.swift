import Testing

@testable import Vocabulary

/// The grammar of RFC 8259: what must be accepted, what must be refused, and what jsonb would say.
@Suite struct JSONScannerTests {
    static func scan(_ bytes: [UInt8]) -> Result<(JSONKind, [JSONMember]), JSONSyntaxError> {
        // A copy of exactly this size on the heap: an address sanitizer sees any byte read past it.
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        defer { copy.deallocate() }
        _ = copy.initialize(from: bytes)
        var scanner = JSONScanner()
        do throws(JSONSyntaxError) {
            return .success((try scanner.scan(UnsafeBufferPointer(copy)), scanner.members))
        } catch {
            return .failure(error)
        }
    }

    static func accepts(_ bytes: [UInt8]) -> Bool { if case .success = scan(bytes) { true } else { false } }

    static let accepted: [String] =
        [
            "{}", "[]", "\"\"", "0", "-0", "1", "-1", "true", "false", "null", " {} ", "\t\n\r {}\t\n\r ", "[ ]", "{ }",
            "[1]", "[1,2]", "[1 , 2]", "[[]]", "[[],[]]", "[{}]", "{\"a\":1}", "{\"a\" : 1}", "{\"\":0}", "{\"a\":{}}",
            "{\"a\":[]}", "{\"a\":1,\"b\":2}", "{\"a\":1,\"a\":1}", "{\"a\":{\"b\":{\"c\":[1,{\"d\":null}]}}}",
            "[null,true,false,0,\"\",[],{}]", "[1\n]", "[\"a\"]\n", "\n[\"a\"]", "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
            "{\"a\":\"b\",\"c\":[\"d\",\"e\"],\"f\":{\"g\":\"h\"}}", "123", "10", "100", "1234567890", "0.0", "0.1",
            "-0.0", "1.0", "1.5", "0e0", "0E0", "0e+1", "0e-1", "1e1", "1E1", "1e+1", "1E+1", "1e-1", "1E-1", "1.5e10",
            "-1.5e-10", "1e00", "1e01", "0.00000000000001", "123456789012345678901234567890", "1.23456789012345678901",
            "1e400", "1e999999999999", "1e-999999999999", "-1e+99999999999999999999", "[-0]", "[1e2,3]",
            "{\"a\":-1e-1}",
            "\"a\"", "\"\\\"\"", "\"\\\\\"", "\"\\/\"", "\"\\b\\f\\n\\r\\t\"", "\"\\u0000\"", "\"\\u0041\"",
            "\"\\uABCD\"", "\"\\uabcd\"", "\"\\uaBcD\"", "\"\\ud83d\\ude00\"", "\"\\ud800\"", "\"\\udc00\"",
            "\"\\ud800\\ud800\"", "\"\\udc00\\ud800\"", "\"\\ud800a\"", "\"\\ud800\\n\"", "\"\\ud800\\u0041\"",
            "\"\\uffff\"", "\"\\ufeff\"", "\"/\"", "\"\u{7f}\"", "\"\u{80}\"", "\"é\"", "\"€\"", "\"😀\"",
            "\"\u{ffff}\"",
            "\"\u{fffe}\"", "\"\u{10ffff}\"", "\"\u{2028}\u{2029}\"", "\"\u{feff}\"", "\"e\u{301}\"", "\"'\"",
            "\"<>&\"",
            "\"1234567\"", "\"12345678\"", "\"123456789\"", "\"1234567\\n\"", "\"12345678\\n\"", "\"1234567é\"",
            "\"123456é\"", "\"12345é\"", "\"\\\\u0000\"", "\"\\\\\\\"\"", "[\"\\\\\"]", "[\"\\\\\\\\\"]",
        ] + (0..<64).map { "\"" + String(repeating: "x", count: $0) + "\"" }
        + (0..<24).map { "\"" + String(repeating: "x", count: $0) + "\\u00e9é\"" }
        + (1..<40).map { String(repeating: "[", count: $0 * 7) + String(repeating: "]", count: $0 * 7) }

    static let refused: [String] =
        [
            "", " ", "\n", "{", "}", "[", "]", "\"", "{]", "[}", "[)", "(", ",", ":", "[,", "[,]", "[1,]", "[,1]",
            "[1,,2]", "[1 2]", "[1", "[1,", "[[]", "[]]", "[][]", "{}{}", "{},", "[],", "1,", "{,}", "{\"a\"}",
            "{\"a\":}", "{\"a\":1,}", "{,\"a\":1}", "{\"a\":1,,\"b\":2}", "{\"a\":1 \"b\":2}", "{\"a\" 1}",
            "{\"a\"::1}",
            "{:1}", "{1:1}", "{a:1}", "{'a':1}", "{\"a\":'b'}", "{null:1}", "{[]:1}", "{\"a\":1", "{\"a\":", "{\"a\"",
            "{\"a", "{\"", "{\"a\":1]", "[\"a\":1]", "[1:2]", "{\"a\",\"b\"}", "{\"a\":1;\"b\":2}", "{\"a\":1}}",
            "{\"a\":1} x", "{\"a\":1}#", "{\"a\":1}//", "/**/{}", "{/**/}", "[1/**/]", "{}/*", "#{}", "{} {}", "1 2",
            "true false", "tru", "t", "truex", "True", "TRUE", "fals", "f", "FALSE", "nul", "n", "nulll", "NULL",
            "Null",
            "nil", "undefined", "NaN", "nan", "Infinity", "-Infinity", "inf", "+Infinity", "[NaN]", "-", "--1", "-a",
            "+1", "+0", "01", "00", "-01", "-00", "007", "1.", "1.e1", ".5", "-.5", "1.a", "1.2.3", "1e", "1e+", "1e-",
            "1ea", "1e1.5", "1e1e1", "e1", "1E", "0x1", "0x", "1x", "1_000", "1,000", "1'000", "0b1", "0o7", "1f", "1L",
            "1.0.", "- 1", "1 .5", "1e 5", "[-]", "[1.]", "[01]", "[1e]", "[.1]", "[+1]", "[0x1]", "[1.,2]", "\"a",
            "\"\\\"", "\"\\", "\"\\a\"", "\"\\0\"", "\"\\x41\"", "\"\\'\"", "\"\\v\"", "\"\\U0041\"", "\"\\u\"",
            "\"\\u0\"", "\"\\u00\"", "\"\\u000\"", "\"\\u000g\"", "\"\\uG000\"", "\"\\u 000\"", "\"\\u-001\"",
            "\"\\u+041\"", "\"\\u{41}\"", "\"\\ud800\\u\"", "\"\\ud800\\u0\"", "\"\\ud800\\uzzzz\"", "\"\\ud800\\x\"",
            "\"\\ud800\\", "\"\\\n\"", "\"\\é\"", "'a'", "`a`", "a", "\"a\"b", "\"a\" \"b\"", "\"\t\"", "\"\n\"",
            "\"\r\"", "\"\u{0}\"", "\"\u{1f}\"", "\"1234567\u{1}\"", "\"12345678\u{1f}\"", "\u{feff}{}", "\u{feff}",
            "{}\u{feff}", "\u{a0}{}", "{}\u{a0}", "\u{b}{}", "\u{c}{}", "\u{2028}{}", "\u{85}{}", "\u{3000}{}", "\u{0}",
            "{}\u{0}", "[\u{0}]", "\u{8}{}", "[1]\u{0}", "“a”", "é", "<a/>", "&", "{\"a\":é}", "[\u{7f}]", "*", "{*}",
            "[*]", "$", "{\"a\":1}\u{1}", "{\"message_id\":\"1\",}", "{\"a\":\"b\"\"c\"}", "[\"a\"\"b\"]",
        ] + (1..<40).map { String(repeating: "[", count: $0) }
        + (1..<40).map { String(repeating: "{\"a\":", count: $0) }
        + (1..<16).map { "\"" + String(repeating: "x", count: $0) }
        + (0..<32).map { "\"" + String(repeating: "x", count: $0 % 9) + String(UnicodeScalar(UInt8($0))) + "\"" }

    static let badUTF8: [[UInt8]] = [
        [0x80], [0xbf], [0xc0, 0x80], [0xc1, 0xbf], [0xc2], [0xc2, 0x20], [0xc2, 0xc2], [0xdf], [0xe0, 0x80, 0x80],
        [0xe0, 0x9f, 0xbf], [0xe0, 0xa0], [0xe1, 0x80], [0xe1, 0x80, 0x20], [0xe1, 0x20, 0x80], [0xed, 0xa0, 0x80],
        [0xed, 0xbf, 0xbf], [0xef, 0xbf], [0xf0, 0x80, 0x80, 0x80], [0xf0, 0x8f, 0xbf, 0xbf], [0xf0, 0x90, 0x80],
        [0xf0, 0x90, 0x80, 0x20], [0xf0, 0x90, 0x20, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80],
        [0xf8, 0x88, 0x80, 0x80, 0x80], [0xfe], [0xff], [0xff, 0xfe], [0xe2, 0x82], [0xc3, 0x28], [0xa0, 0xa1],
    ]

    @Test("every text of RFC 8259's grammar is accepted")
    func grammaticalTextsAreAccepted() {
        for text in JSONScannerTests.accepted {
            #expect(JSONScannerTests.accepts(Array(text.utf8)), "\(text)")
        }
    }

    @Test("texts outside of the grammar are refused")
    func everythingElseIsRefused() {
        for text in JSONScannerTests.refused {
            #expect(!JSONScannerTests.accepts(Array(text.utf8)), "\(text.debugDescription)")
        }
    }

    @Test("bytes that are not UTF-8 are refused wherever they stand")
    func whatIsNotUTF8IsRefusedWhereverItStands() {
        for bad in JSONScannerTests.badUTF8 {
            for before in 0..<10 {
                for after in [0, 1, 2, 3, 4, 9] {
                    let inside = [UInt8](repeating: 0x78, count: before) + bad + [UInt8](repeating: 0x79, count: after)
                    #expect(!JSONScannerTests.accepts([0x22] + inside + [0x22]), "\(hex(inside))")
                }
            }
            #expect(!JSONScannerTests.accepts(bad))
            #expect(!JSONScannerTests.accepts(Array("{}".utf8) + bad))
        }
    }

    @Test("a text that is cut off is refused, unless what is left is a number")
    func everyCutOfATextIsRefusedOrANumber() {
        let text = Array(#"{"a":[1,2.5e-3,{"b":"\u00e9é\n😀"}],"c":null,"d":"\ud83d\ude00"}"#.utf8)
        for cut in 0..<text.count { #expect(!JSONScannerTests.accepts(Array(text[..<cut]))) }
        #expect(JSONScannerTests.accepts(text))
    }

    @Test("the spans of members are their verbatim texts")
    func spansAreTheVerbatimLiterals() throws {
        let text = Array(#" { "a" : [ 1 , "x" ] ,"bé\n": "y\"z" , "" :-1.50e+3}  "#.utf8)
        let (kind, members) = try JSONScannerTests.scan(text).get()
        #expect(kind == .object)
        let found = members.map {
            [$0.key, $0.value].map { String(decoding: text[$0.range], as: UTF8.self) }
        }
        #expect(found == [["a", #"[ 1 , "x" ]"#], ["bé\\n", #""y\"z""#], ["", "-1.50e+3"]])
        #expect(members.map(\.kind) == [.array, .string, .number])
    }

    @Test("nesting of any depth is read, without recursion")
    func nestingIsBoundedByTheTextAlone() throws {
        for depth in [1, 63, 64, 65, 127, 128, 129, 511, 512, 513, 100_000] {
            let arrays = Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
            #expect(JSONScannerTests.accepts(arrays))
            #expect(!JSONScannerTests.accepts(Array(arrays.dropLast())))
            let mixed = Array(
                (String(repeating: "[{\"a\":", count: depth) + "1" + String(repeating: "}]", count: depth)).utf8
            )
            #expect(JSONScannerTests.accepts(mixed))
            let swapped = Array(
                (String(repeating: "[{\"a\":", count: depth) + "1" + String(repeating: "]}", count: depth)).utf8
            )
            #expect(!JSONScannerTests.accepts(swapped))
        }
    }

    /// Each verdict was taken from PostgreSQL 15: `SELECT ('…'::json)::jsonb`.
    @Test(
        "a value is called castable exactly where jsonb takes it",
        arguments: [
            ("1e131071", true), ("9.99e131071", true), ("1e131072", false), ("10e131070", true), ("10e131071", false),
            ("0.1e131072", true), ("0.1e131073", false), ("0.0001e131075", true), ("0.0001e131076", false),
            ("0e131072", true), ("0e200000", true), ("0e-16383", true), ("0e-16384", false), ("1e-16383", true),
            ("1e-16384", false), ("1.5e-16382", true), ("1.5e-16383", false), ("1e-131072", false),
            ("0e1073741822", true), ("0e1073741823", false), ("0e-1073741823", false), ("1e2147483648", false),
            ("1e99999999999999999999", false), ("0e99999999999999999999", false), ("-1e131071", true),
            ("-1e131072", false), ("-0", true), ("1E+131071", true), ("1e0000000000000000000000131071", true),
            ("1e-0000000000000000000000016383", true), ("0.0e16384", true), ("0.0e-16382", true), ("0.0e-16383", false),
            ("1.0e131071", true), ("100e-16384", false), ("100e-16383", true), ("1e400", true), ("1e200000", false),
            (String(repeating: "9", count: 131_072), true), (String(repeating: "9", count: 131_073), false),
            ("1." + String(repeating: "9", count: 16_383), true), ("1." + String(repeating: "9", count: 16_384), false),
            ("0." + String(repeating: "0", count: 16_383), true), ("0." + String(repeating: "0", count: 16_384), false),
            ("0." + String(repeating: "0", count: 20_000) + "1e20001", true),
            ("0." + String(repeating: "0", count: 20_000) + "1e3618", true),
            ("0." + String(repeating: "0", count: 20_000) + "1e3617", false),
            ("\"\\u0000\"", false), ("\"\\ud800\"", false), ("\"\\ud800\\ud800\"", false), ("\"\\ud800a\"", false),
            ("\"\\udc00\"", false), ("\"\\ud800\\udc00\"", true), ("\"\\udbff\\udfff\"", true), ("\"\\uFFFF\"", true),
            ("{\"\\u0000\":1}", false), ("{\"\\udc00\":1}", false), ("{\"a\":1,\"a\":2}", true),
            ("\"\\\\u0000\"", true),
            ("\"\\\\ud800\"", true), ("[[[{\"a\":[\"x\\u0000\"]}]]]", false), ("[1e131072,\"x\"]", false),
        ]
    )
    func castableMeansThatJsonbTakesIt(_ value: String, _ castable: Bool) throws {
        let text = Array("{\"data\":\(value)}".utf8)
        let (_, members) = try JSONScannerTests.scan(text).get()
        #expect(members.first?.traits.isCastable == castable)
    }

    @Test("nesting beyond what jsonb takes is marked")
    func nestingPastTheLimitIsNotCastable() throws {
        for (depth, castable) in [(1, true), (512, true), (513, false), (5_000, false)] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let value = String(repeating: open, count: depth) + (open == "[" ? "" : "1")
                let text = "{\"data\":" + value + String(repeating: close, count: depth) + ",\"x\":[]}"
                let (_, members) = try JSONScannerTests.scan(Array(text.utf8)).get()
                #expect(members.first?.traits.contains(.tooDeep) == !castable)
                #expect(members.last?.traits == [])
            }
        }
    }

    @Test("what is marked in one member is not in another")
    func traitsBelongToTheirMember() throws {
        let text = Array(#"{"a":"\u0000","b":"x","c\ud800":1e999999,"d":{"e":"\n"}}"#.utf8)
        let (_, members) = try JSONScannerTests.scan(text).get()
        #expect(members.map(\.traits) == [[.escaped, .null], [], .numberOutOfRange, .escaped])
        #expect(members.map(\.keyTraits) == [[], [], [.escaped, .loneSurrogate], []])
    }

    /// Python's own parser judges thousands of mutants of valid texts.
    @Test("Python's parser accepts and refuses the same texts")
    func agreesWithAForeignParser() throws {
        var random = SeededGenerator(state: 8259)
        let alphabet =
            Array("{}[]\",:\\/ubfnrt0123456789.eE+-truefalsnul \t\n".utf8) + [0xc3, 0xa9, 0xf0, 0x9f, 0x01, 0xed]
        let seeds = JSONScannerTests.accepted.filter { $0.utf8.count < 100 }.map { Array($0.utf8) }
        var texts = (JSONScannerTests.accepted + JSONScannerTests.refused).map { Array($0.utf8) }
        texts += JSONScannerTests.badUTF8.map { [0x22] + $0 + [0x22] }
        for _ in 0..<6_000 {
            var text = seeds.randomElement(using: &random) ?? []
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                let at = Int.random(in: 0...text.count, using: &random)
                let byte = alphabet.randomElement(using: &random) ?? 0x20
                switch Int.random(in: 0..<3, using: &random) {
                case 0: text.insert(byte, at: at)
                case 1 where at < text.count: text.remove(at: at)
                case 2 where at < text.count: text[at] = byte
                default: break
                }
            }
            texts.append(text)
        }
        let program = """
            import json, sys
            def refuse(word): raise ValueError(word)
            sys.setrecursionlimit(20000)
            for line in sys.stdin:
                try:
                    value = json.loads(bytes.fromhex(line.strip()).decode('utf-8'), parse_constant=refuse,
                                       parse_int=str, parse_float=str, object_pairs_hook=lambda pairs: pairs or [()])
                    print('yes')
                except ValueError:
                    print('no')
            """
        let verdicts = try python(program, texts.map(hex))
        #expect(verdicts.count == texts.count)
        for (text, verdict) in zip(texts, verdicts) {
            #expect(JSONScannerTests.accepts(text) == (verdict == "yes"), "\(hex(text))")
        }
        #expect(verdicts.count { $0 == "yes" } > 1_000)
    }
}
