import Telemetry
import Testing

@Suite("Where messages bring their trace context")
struct TraceMemberTests {
    private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    private func find(_ json: String, at path: String = "traceparent") throws -> TraceContext? {
        let bytes = Array(json.utf8)
        return try #require(TraceMember(path: path)).context(in: bytes.span)
    }

    @Test(
        "It is found wherever it stands in the object",
        arguments: [
            #"{"traceparent":"P"}"#, #"{"a":1,"traceparent":"P","b":[1,{"c":"}"}]}"#,
            #" { "a" : "x\"traceparent\\" , "traceparent" : "P" } "#, #"{"a":{"traceparent":"no"},"traceparent":"P"}"#,
            #"{"a":[[],[{}],"]"],"b":-1.5e3,"c":null,"d":true,"traceparent":"P"}"#, "{\n\t\"traceparent\"\r:\n\"P\"}",
            #"{"\u0061":"\u0022","traceparent":"P"}"#, #"{"traceparent":"P","traceparent":"later"}"#,
        ]
    )
    func found(_ json: String) throws {
        #expect(try find(json.replacing("P", with: Self.parent))?.traceparent == Self.parent)
    }

    @Test("Its tracestate stands beside it, before or after")
    func state() throws {
        for json in [#"{"tracestate":"a=1","traceparent":"P"}"#, #"{"traceparent":"P","x":0,"tracestate":"a=1"}"#] {
            #expect(try find(json.replacing("P", with: Self.parent))?.state == "a=1")
        }
        #expect(try find(#"{"traceparent":"\#(Self.parent)","tracestate":"A=1"}"#)?.state == nil)
        #expect(try find(#"{"traceparent":"\#(Self.parent)","tracestate":7}"#)?.state == nil)
    }

    @Test("A path leads into objects")
    func path() throws {
        let json = #"{"meta":{"trace":{"x":[{}],"parent":"P","tracestate":"a=1"}},"parent":"no"}"#
        let found = try find(json.replacing("P", with: Self.parent), at: "meta.trace.parent")
        #expect(found?.traceparent == Self.parent && found?.state == "a=1")
        #expect(try find(json, at: "meta.parent") == nil)
        for bad in ["", ".", "a.", ".a", "a..b", #"a\b"#, "a.b.c.d.e.f.g.h.i"] {
            #expect(TraceMember(path: bad) == nil)
        }
    }

    @Test(
        "Anything else is no context, and nothing traps",
        arguments: [
            "", "7", "null", "[]", #""traceparent""#, "{}", #"{"traceparent":7}"#, #"{"traceparent":null}"#,
            #"{"traceparent":{"traceparent":"P"}}"#, #"["traceparent","P"]"#, #"{"x":"traceparent"}"#,
            #"{"traceparent":"P\u0030"}"#, #"{"traceparent":"P"#, #"{"traceparent""#, #"{"traceparent":"#,
            #"{"traceparent":"\"#,
            #"{"a":{{{{"traceparent":"P"#, #"{"a":"traceparent\"#, #"{"traceparent" "P"}"#, #"traceparent":"P"}"#,
            #"{"traceparents":"P"}"#,
        ]
    )
    func nothing(_ json: String) throws {
        #expect(try find(json.replacing("P", with: Self.parent)) == nil)
    }

    @Test("Torn everywhere, it is found whole or not at all")
    func torn() throws {
        let json = Array(#"{"a":"\\","b":[{"c":1}],"traceparent":"\#(Self.parent)"}"#.utf8)
        let member = try #require(TraceMember(path: "traceparent"))
        for end in json.indices {
            let torn = Array(json[..<end])
            let found = member.context(in: torn.span)
            #expect(found == nil || end == json.count - 1)
        }
        let whole = member.context(in: json.span)
        #expect(whole != nil)
    }
}
