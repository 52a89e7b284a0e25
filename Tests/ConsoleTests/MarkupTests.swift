import Foundation
import Testing
import Vocabulary

@testable import Console

/// What strangers wrote becomes text, wherever it is put.
struct MarkupTests {
    private func text(_ html: HTML) -> String { String(decoding: html.bytes, as: UTF8.self) }

    @Test("text between tags and in attributes becomes no markup")
    func escapes() {
        let evil = #"</td><script>alert('1')</script>" onclick="x&y"#
        let cell: HTML = "<td title=\"\(evil)\">\(evil)</td>"
        #expect(
            text(cell).components(
                separatedBy: "&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onclick=&quot;x&amp;y"
            )
            .count == 3
        )
        #expect(!text(cell).contains("<script"))
    }

    @Test("a piece of HTML in another is not escaped again")
    func nests() {
        let inner: HTML = "<b>\("<")</b>"
        #expect(text("<p>\(inner)\([inner, inner])</p>") == "<p><b>&lt;</b><b>&lt;</b><b>&lt;</b></p>")
    }

    @Test("what is not seen, or turns the direction, is shown by its number and kept in its place")
    func marks() {
        let stranger = "a\u{202E}b\u{0}c\u{200B}d\ne"
        #expect(
            text("\(stranger: stranger)")
                == """
                <bdi>a<span class="mark">U+202E</span>b<span class="mark">U+0000</span>c<span class="mark">U+200B</span>d\
                <span class="mark">\\n</span>e</bdi>
                """
        )
        #expect(text("\(stranger)") == "a\\u{202E}b\\u{0}c\\u{200B}d\\ne")
        #expect(text("\(exact: "a\u{0}<")") == "a\u{FFFD}&lt;")
    }

    @Test("an address stays within the console whatever its parts hold")
    func addresses() {
        let address = PageAddress("/messages").adding("../../x y?#").query("category", "a&b=\"c").query("none", nil)
        #expect(text("\(address)") == "/messages/..%2F..%2Fx%20y%3F%23?category=a%26b%3D%22c")
        #expect(text("\(PageAddress("/").adding("javascript:alert(1)"))") == "/javascript%3Aalert%281%29")
    }

    @Test("a form's parameters are read as a browser sends them")
    func query() throws {
        let query = try PageQuery("category=a+b&category=c%26d&empty=&where=data.x%3E1")
        #expect(query.values["category"] == ["a b", "c&d"])
        #expect(query["where"] == "data.x>1")
        #expect(query["empty"] == nil)
        for bad in ["bad=%F0%28", "bad=%zz", "bad=%4", "%00=x"] {
            #expect(throws: Problem.self, "\(bad)") { _ = try PageQuery(bad) }
        }
    }

    @Test("JSON of any depth, and what is none, is laid out without a trap")
    func json() {
        let deep = [UInt8](String(repeating: "[", count: 200_000).utf8)
        #expect(JSONMarkup.html(deep, limit: 100_000).rest?.bytes.count == 98_000)
        let script = JSONMarkup.html([UInt8](#"{"<script>":"</pre><script>","n":1e9,"e":{},"t":"\"x"}"#.utf8)).html
        #expect(!text(script).contains("<script>"))
        #expect(text(script).contains("&lt;/pre&gt;&lt;script&gt;"))
        #expect(text(script).contains("<span class=\"j-name\"><bdi>&quot;n&quot;</bdi></span>: "))
        for broken in ["\"", "\"\\", "}}]]", "{\"a", ",,,", "\u{0}", "tru\"e"] {
            _ = JSONMarkup.html([UInt8](broken.utf8))
            _ = JSONLayout.lines([UInt8](broken.utf8))
        }
    }

    @Test(
        "a value becomes at most four times as much HTML, of 2,000 names and values at most; the rest is there, folded",
        arguments: [
            String(repeating: "[", count: 50_000) + String(repeating: "]", count: 50_000),
            "[" + Array(repeating: "1", count: 60_000).joined(separator: ",") + "]",
            "[" + Array(repeating: #"{"\u0001":"\u{202E}&\u{1}"}"#, count: 5_000).joined(separator: ",") + "]",
            "\"" + String(repeating: "\u{7}", count: 100_000) + "\"",
            "\"" + String(repeating: "&", count: 100_000) + "\"",
            String(repeating: "{\"a\":", count: 20_000),
        ]
    )
    func size(_ text: String) {
        let json = [UInt8](text.utf8)
        let shown = JSONMarkup.html(json)
        let rest = shown.rest?.bytes ?? []
        #expect(shown.html.bytes.count + rest.count <= 4 * json.count)
        #expect(String(decoding: shown.html.bytes, as: UTF8.self).components(separatedBy: "<bdi>").count <= 2_001)
        #expect(shown.rest != nil && (!rest.isEmpty || !shown.isWhole))
        #expect(JSONLayout.lines(json, limit: 1_200).count <= 1_202)
    }

    @Test("what a bracket holds folds, down to a depth, and every element is closed")
    func folds() throws {
        let html = text(JSONMarkup.html([UInt8](#"{"a":[1,{"b":{}}],"c":"d"}"#.utf8)).html)
        let plain = html.replacing(/<\/?(span|bdi)[^>]*>/, with: "")
        #expect(
            plain == """
                <details open><summary>{</summary><details open><summary>  &quot;a&quot;: [</summary>    1,<details open><summary>    {</summary>      &quot;b&quot;: {}</details>    }</details>  ],
                  &quot;c&quot;: &quot;d&quot;</details>}
                """
        )
        for json in [String(repeating: "[", count: 3_000), String(repeating: "]", count: 50), #"{"a":[[1],[2"#] {
            let html = text(JSONMarkup.html([UInt8](json.utf8)).html)
            let (opened, closed) = (html.matches(of: /<details/).count, html.matches(of: /<\/details>/).count)
            #expect(opened == closed && opened <= 32, "\(json.prefix(20)): \(opened) and \(closed)")
        }
    }

    @Test("lines that are in both stand beside each other")
    func diff() {
        let rows = TextDiff.rows(["a", "b", "c"], ["a", "x", "c", "d"])
        #expect(rows.map(\.left) == [.same("a"), .different("b"), .same("c"), .absent])
        #expect(rows.map(\.right) == [.same("a"), .different("x"), .same("c"), .different("d")])
    }

    @Test("figures are written for people")
    func figures() {
        #expect(Figures.count(-1_234_567) == "−1,234,567")
        #expect(Figures.length(.milliseconds(12)) == "12 ms")
        #expect(Figures.length(.seconds(7_200)) == "2 h")
        #expect(Figures.share(1, of: 3) == "33.3%")
        #expect(Figures.share(999_999, of: 1_000_000) == "99.9%")
        #expect(Figures.decimal(.nan) == "–")
    }
}
