import Testing

@testable import Console

@Suite("members that appear twice")
struct DuplicateMemberTests {
    @Test(
        "are found at any depth, whatever their escapes",
        arguments: [
            (#"{"a":1,"a":2}"#, "a"), (#"{"a":{"b":1,"c":[{"d":1,"d":1}]}}"#, "d"), (#"{"x":[],"\u0078":0}"#, "x"),
            (#"[{"a":1},{"b":1,"b":1}]"#, "b"), (#"{"\"":1,"\u0022":1}"#, "\""),
        ]
    )
    func found(_ json: String, _ name: String) {
        #expect(DuplicateMembers.first(in: Array(json.utf8)) == name)
    }

    @Test(
        "a name may come again elsewhere, in a value, and in another spelling of its letters",
        arguments: [
            #"{"a":{"a":1},"b":"a","c":["a","a"]}"#, #"{"a":"x\",\"a\":","b":1}"#, #"{}"#,
            #"[[],{},[{"a":1},{"a":1}]]"#,
            "{\"jos\u{E9}\":1,\"jose\u{301}\":2}", #"{"a""#, #"}{"#, #""\"#,
        ]
    )
    func unfound(_ json: String) {
        #expect(DuplicateMembers.first(in: Array(json.utf8)) == nil)
    }
}
