import Testing
import Vocabulary

@Suite struct SQLFunctionTests {
    @Test("Function names are quoted as PostgreSQL reads them")
    func quotesAsPostgreSQLReads() {
        let cases = [
            "app.take_order": #""app"."take_order""#, "Take": #""take""#, #""Take It".f$1"#: #""Take It"."f$1""#,
            #""a""b""#: #""a""b""#,
        ]
        for (text, quoted) in cases { #expect(SQLFunction(text)?.quoted == quoted) }
    }

    @Test(
        "Texts that are not function names are refused",
        arguments: [
            "", ".", "a.", ".a", "a.b.c", "a b", "f()", "1a", "a;drop table x", #""a"#, #""""#, "a--", "caf\u{E9}",
            "a\u{0}",
            #""a"b"#, "$a",
        ]
    )
    func refusesWhatIsNoName(_ text: String) {
        #expect(SQLFunction(text) == nil)
    }
}
