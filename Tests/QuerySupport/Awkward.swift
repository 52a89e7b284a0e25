/// Content that is awkward in one format or another.
package enum Awkward {
    /// Escape sequences that clear a screen and rename its window.
    package static let escape = "\u{1B}[2J\u{1B}]0;pwned\u{7}"
    /// Characters that turn the direction of text, or take no place.
    package static let bidi = "\u{202E}gpj.exe\u{202C}\u{200B}\u{9B}31m\u{E0041}"

    /// One message for each kind of trouble.
    package static let seeds: [Seed] = [
        Seed(id: "plain", extra: #"{"ttl":5}"#, at: 0),
        Seed(id: "lines", data: "{\n\t\"a\" : 1,\r\n \"b\": \"x\\ny\"\n}", extra: "{\"e\":\n2}", at: 1),
        Seed(id: "quotes \" , ; \\ '", category: "a,b\"c", data: #"{"q":"say \"hi\", then\\"}"#, at: 2),
        Seed(
            id: escape,
            category: escape,
            token: "tok\(escape)",
            data: #"{"v":"\u001b[2J"}"#,
            from: "x\(escape)@y",
            at: 3
        ),
        Seed(id: bidi, category: bidi, data: "{\"v\":\"\(bidi)\"}", at: 4),
        Seed(id: "line\nbreak\r\ttab", category: "c\nd", data: "[]", at: 5),
        Seed(id: "uncastable", data: nil, raw: #"{"v":"\u0000","n":1e200000}"#, at: 6),
        Seed(id: "no data", data: nil, from: nil, at: 7),
        Seed(id: "json null", data: "null", type: "receipt", at: 8),
        Seed(id: "=cmd|' /C calc'!A0", data: "\"\"", at: 9),
        Seed(id: "emoji 😀 ä \u{2028}\u{2029} \u{85}", data: #"{"k":"😀","k":2}"#, at: 10),
        Seed(id: "1", data: "12345678901234567890.123456789", extra: #"{"deep":[[[]]],"u":"\u0000"}"#, at: 11),
    ]
}

/// What a terminal may act on, by rules of this file's own.
package enum Danger {
    /// Whether a terminal may act on the character.
    package static func isDangerous(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF, 0xE0000...0xE007F: true
        default: false
        }
    }
}
