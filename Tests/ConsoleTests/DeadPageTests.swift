import ConsoleSupport
import QuerySupport
import Testing

@Suite("the pages of dead letters")
struct DeadPageTests {
    /// The most bytes of a page.
    private static let most = 60_000

    /// The addresses of a page and all that follow it, with their HTML.
    private func pages(_ console: ConsoleHarness, _ first: String) async throws -> [String] {
        var (pages, next): ([String], String?) = ([], first)
        while let address = next, pages.count < 100 {
            let reply = try await console.get(address, as: .operator_)
            #expect(reply.status == 200, "\(address)")
            pages.append(reply.text)
            let more = reply.text.firstMatch(of: /rel="next" href="([^"]*)"/)
            next = more.map { String($0.1).replacing("&amp;", with: "&") }
        }
        return pages
    }

    @Test("300 groups and 1,000 letters of one come in pages under 60 KB, each once")
    func weight() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(1_000, "orders", "webhook status 503")
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('billing');
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
                ) SELECT 'billing', gen_random_uuid(), now(), 20, now(), 1, 'e', 'sql ' || n FROM generate_series(1, 299) AS n;
                UPDATE upstream.dead_letters SET last_error = repeat('long error ', 40)
                """
            )
            let groups = try await pages(console, "/dead")
            let links = groups.flatMap {
                $0.matches(of: /class="mono" href="(\/dead\/letters[^"]*)"/).map { String($0.1) }
            }
            #expect(links.count == 300 && Set(links).count == 300, "\(links.count) in \(groups.count) pages")
            #expect(links.first?.contains("status%20503") == true, "the largest is not first: \(links.first ?? "")")
            let address = try #require(links.first).replacing("&amp;", with: "&")
            let letters = try await pages(console, address)
            let boxes = letters.flatMap { $0.matches(of: /value="([^"]*)" data-choose/).map { $0.1 } }
            #expect(boxes.count == 1_000 && Set(boxes).count == 1_000, "\(boxes.count) in \(letters.count) pages")
            for page in groups + letters { #expect(page.utf8.count < Self.most, "\(page.utf8.count) bytes") }
        }
    }

    @Test("groups are found by their names and by when their letters died, and the API finds the same")
    func search() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(3, "orders", "status 503")
            try await console.kill(2, "billing", "timeout")
            try await console.database.script(
                "UPDATE upstream.dead_letters SET died_at = now() - interval '2 days' WHERE error_group = 'timeout'"
            )
            for (query, found) in [
                ("", ["status 503", "timeout"]), ("text=STATUS", ["status 503"]), ("text=bill", ["timeout"]),
                ("handler=billing", ["timeout"]), ("since=1d", ["status 503"]), ("until=1d", ["timeout"]),
                ("text=none", []),
            ] {
                let items = try await console.get("/api/v1/dead/groups?" + query).items
                #expect(items.compactMap { $0["error_group"] as? String } == found, "\(query)")
                let page = try await console.get("/dead" + (query.isEmpty ? "" : "?" + query)).text
                for name in ["status 503", "timeout"] {
                    #expect(page.contains(">\(name)</bdi>") == found.contains(name), "\(query): \(name)")
                }
            }
        }
    }

    @Test("no search finds a group by what is hidden of it", arguments: [false, true])
    func hidden(isHidden: Bool) async throws {
        try await SecrecyStage.run(isHidden: isHidden) { console, _ in
            let items = try await console.get("/api/v1/dead/groups?text=PAYLOADgr").items
            #expect(items.isEmpty == isHidden)
        }
    }

    @Test("a group that can't be named leads from the overview to its handler's groups, not to all of its letters")
    func unnamed() async throws {
        try await SecrecyStage.run(isHidden: true) { console, _ in
            let page = try await console.get("/").text
            #expect(page.contains(#"<a href="/dead?handler=billing">Look</a>"#))
            #expect(!page.contains(#"<a href="/dead/letters?handler=billing">Look</a>"#))
        }
    }

    @Test("the chosen letters are acted on and no others; the audit trail names them")
    func chosen() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(5)
            try await console.kill(5, "billing")
            let listed = try await console.get("/api/v1/dead?handler=orders").items
            let keys = listed.prefix(2).compactMap { $0["message_key"] as? String }
            let list = keys.map { "\"\($0)\"" }.joined(separator: ",")
            let set = try await console.act(
                "dead/discard",
                "{\"filter\":{\"handler\":\"orders\",\"message_key\":[\(list)]}}"
            )
            #expect(set.status == 201 && set.object["planned"] as? Int == 2, "\(set.text)")
            let id = try #require(set.object["id"] as? String)
            #expect(try await console.act("dead/discard", #"{"id":"\#(id)","reason":"junk"}"#).status == 202)
            _ = try await console.ended(id)
            let left = try await console.get("/api/v1/dead?handler=orders").items
            #expect(left.count == 3 && left.allSatisfy { !keys.contains($0["message_key"] as? String ?? "") })
            let subject = "dead letters, handler orders, messages " + keys.joined(separator: " ")
            #expect(try await console.trail() == ["operator|console|dead.discard|\(subject)|2|junk"])
            let one = try await console.act("dead/retry", "{\"filter\":{\"message_key\":\"\(keys[0])\"}}")
            #expect(one.status == 200 && one.object["planned"] as? Int == 0, "\(one.text)")
        }
    }

    @Test("a group's page names handler and group at once, counts first, and offers nothing to whoever may not act")
    func dialogs() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(5, "orders", "status 503")
            let address = "/dead/letters?handler=orders&group=status%20503"
            let page = try await console.get(address, as: .operator_).text
            let dialog = try #require(
                page.firstMatch(of: /<dialog id="these-discard".*?<\/dialog>/.dotMatchesNewlines())
            )
            #expect(dialog.0.contains("<strong>orders</strong>") && dialog.0.contains("<bdi>status 503</bdi>"))
            #expect(dialog.0.contains(">Count first</button>") && dialog.0.contains("Discard group"))
            // At the top: before the letters.
            let (acts, letters) = (page.firstRange(of: "these-discard"), page.firstRange(of: "dead-letters"))
            #expect(try #require(acts).lowerBound < #require(letters).lowerBound)
            #expect(page.contains("Retry chosen") && page.contains("data-choose"))
            #expect(page.matches(of: #/data-dialog="chosen-retry" data-alone/#).count == 5, "each row has a button")
            // The overview leads to the dialog.
            let link = address.replacing("&", with: "&amp;") + "#these-retry"
            #expect(try await console.get("/", as: .operator_).text.contains(link))
            #expect(try await !console.get("/").text.contains("#these-retry"))
            let viewed = try await console.get(address).text
            #expect(!viewed.contains("<dialog") && !viewed.contains("data-choose"))
            // A key alone may be another handler's letter as well.
            #expect(
                try await !console.get("/dead/letters?group=status%20503", as: .operator_).text.contains("data-choose")
            )
        }
    }

    @Test("the page of a dead message begins with its error and attempts, and acts on the letter alone")
    func message() async throws {
        try await ConsoleHarness.run([Seed(id: "m1")]) { console in
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group, last_error
                ) SELECT 'orders', message_key, received_at, 20, now(), 0, 'reject', repeat('long ', 100) || 'THE-END'
                FROM upstream.messages
                """
            )
            let page = try await console.get("/messages/m1", as: .operator_).text
            let places = ["Dead letter of orders", "THE-END", "<h2>Attempts ", "<h2>Data ", "<h2>Facts "].map {
                page.firstRange(of: $0)?.lowerBound
            }
            #expect(places.allSatisfy { $0 != nil } && places.compactMap(\.self) == places.compactMap(\.self).sorted())
            #expect(page.contains("letter-0-retry") && page.contains("letter-0-discard"))
            #expect(try await !console.get("/messages/m1").text.contains("letter-0-"))
        }
    }
}
