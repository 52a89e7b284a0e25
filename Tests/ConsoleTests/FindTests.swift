import ConsoleSupport
import Foundation
import QuerySupport
import Querying
import Resources
import Testing

@Suite("the search box")
struct FindTests {
    private func find(_ console: ConsoleHarness, _ text: String) async throws -> ConsoleReply {
        let text = text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        return try await console.get("/find?q=\(text)")
    }

    @Test("terms lead to the messages that they select; an id, a key or its first six letters to the message")
    func leads() async throws {
        try await ConsoleHarness.run([Seed(id: "m1"), Seed(id: "order:17", at: 1)]) { console in
            let row = try #require(
                try await console.database.text(
                    "SELECT concat_ws(' ', message_key, device_key) FROM upstream.messages WHERE message_id = 'm1'"
                )
            )
            let keys = row.split(separator: " ").map(String.init)
            for (text, address) in [
                (
                    "category:com.example.orders since:2h data.total>=100",
                    "/messages?category=com.example.orders&since=2h&where=data.total%3E%3D100"
                ),
                ("data.a exists data.b=\"x y\"", "/messages?where=data.a%20exists&where=data.b%3D%22x%20y%22"),
                ("category:a category:b", "/messages?category=a&category=b"),
                ("message_id:\"a \\\"b\"", "/messages?message_id=a%20%22b"), ("handler:orders", "/handlers/orders"),
                ("m1", "/messages/m1"), ("\"order:17\"", "/messages/order%3A17"), (keys[0], "/messages/\(keys[0])"),
                (String(keys[0].prefix(6)), "/messages/\(keys[0].prefix(6))"),
                (keys[1], "/messages?device=\(keys[1])"), ("nothing", "/messages?message_id=nothing"),
            ] {
                let reply = try await find(console, text)
                #expect(reply.status == 303 && reply.header("Location") == address, "\(text): \(reply.headers)")
                #expect(try await console.get(address).status == (text.hasPrefix("handler") ? 404 : 200), "\(address)")
            }
        }
    }

    @Test("a term that can't be read is named, with what is allowed")
    func mistakes() async throws {
        try await ConsoleHarness.run { console in
            for (text, term, why) in [
                ("categroy:x", "categroy:x", "did you mean &#39;category:&#39;?"),
                ("since:2h colour:red", "colour:red", "allowed are category:, message_id:"),
                ("since:2h since:3h", "since:3h", "is given twice"), ("since:soon", "since:soon", "for example 2h"),
                ("data.x==1", "data.x==1", "is not a comparison"), ("message_id:\"a", "message_id:", "is not closed"),
                ("m1 since:2h", "m1", "this goes alone"), ("device:x", "device:x", "takes a device_key"),
                ("category:", "category:", "a value is missing"),
            ] {
                let reply = try await find(console, text)
                #expect(reply.status == 200 && reply.text.contains(why), "\(text): \(why)")
                let named = reply.text.firstMatch(of: /notice bad"><code>([^<]*)/)?.1 ?? ""
                #expect(named.hasPrefix(term), "\(text): \(named)")
            }
        }
    }

    @Test("the box says what the form says, and what it says is read as the same")
    func same() async throws {
        for values in [
            ["category": ["a", "b c"], "since": ["2h"]], ["message_id": ["\"q\" \\ :x"]],
            ["where": ["data.a=x y", "data.b exists", "data.\"a b\">=1", "data~x"]], ["sender": ["data.x"]],
        ] {
            let sight = Sight(tokens: true, payloads: true)
            let asked = Asked<MessageFilter>(lenient: values, sight: sight)
            #expect(try SearchTerms(asked.terms, of: MessageFilter.self).values == values, "\(asked.terms)")
        }
        try await ConsoleHarness.run { console in
            let page = try await console.get("/messages?category=a&since=2h").text
            #expect(page.contains(#"name="q" value="category:a since:2h""#))
            #expect(page.contains(#"name="category" value="a""#) && page.contains(#"name="since" value="2h""#))
            #expect(try await console.get("/audit", as: .auditor).text.contains(#"name="q" value="""#))
        }
    }

    @Test("an address holds only what was set")
    func short() async throws {
        try await ConsoleHarness.run { console in
            for (path, address) in [
                ("/messages?category=&message_id=&since=2h&where=", "/messages?since=2h"),
                ("/dead?handler=&text=", "/dead"), ("/find?q=", "/find"), ("/find", "/messages"),
                ("/messages?category=a", nil),
            ] {
                let reply = try await console.get(path)
                #expect(reply.status == (address == nil ? 200 : 303) && reply.header("Location") == address, "\(path)")
            }
        }
    }
}
