import ConsoleSupport
import Foundation
import HTTPTypes
import Querying
import Resources
import Testing
import Vocabulary

@testable import Console

@Suite("who may see which field", .timeLimit(.minutes(5)))
struct SecrecyTests {
    /// What is served to anybody, and holds nothing of what is stored.
    private static let outside: Set = [
        "/livez", "/readyz", "/sign-in", "/sign-in/once/:secret", "/assets/:digest/:name", "/api/v1/openapi.json",
    ]
    /// What never ends: a few events of it are read.
    private static let endless = "/api/v1/messages/stream"

    @Test("every member of every answer is declared, and every declared one is described")
    func declared() async throws {
        let endpoints = try await SecrecyStage.server().endpoints
        let json = OpenAPIDocument.json(endpoints, version: "1")
        let document = try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
        let components = try #require(document["components"] as? [String: Any])
        let schemas = try #require(components["schemas"] as? [String: [String: Any]])
        let asked: Set = ["Outcome", "Document"]
        var described: [String: Set<String>] = [:]
        for (name, schema) in schemas where !asked.contains(name) {
            var members = Set((schema["properties"] as? [String: Any] ?? [:]).keys)
            // A page, and no more than that.
            if members.isSubset(of: ["items", "next", "estimate"]) {
                let items = (schema["properties"] as? [String: [String: Any]])?["items"]?["items"] as? [String: Any]
                guard let row = items?["required"] as? [String] else { continue }
                members = Set(row)
            }
            described[name] = members
        }
        func names<Row: ShownResource>(_: Row.Type) -> Set<String> { Set(Row.fields.map(\.name.description)) }
        let resources = OpenAPIDocument.resources(endpoints)
        let known = Dictionary(resources.map { ($0.resource, names($0)) }) { one, _ in one }
        #expect(known.count == resources.count)
        #expect(Set(known.keys) == Set(described.keys))
        for (name, members) in described { #expect(known[name] == members, "\(name)") }
    }

    @Test(
        "nobody finds what is not theirs to see, by any route, and what is theirs is there",
        arguments: [false, true]
    )
    func walk(isHidden: Bool) async throws {
        let routes = try await SecrecyStage.routes()
        try await SecrecyStage.run(isHidden: isHidden) { console, stage in
            var seen = ""
            for (route, methods) in routes.sorted(by: { $0.key < $1.key }) where methods.contains(.get) {
                guard !Self.outside.contains(route), route != Self.endless else { continue }
                let addresses = try #require(stage.addresses(route), "the walk has no address for \(route)")
                for address in addresses {
                    for caller in [ConsoleHarness.Caller.viewer, .operator_, .auditor, .revealer] {
                        let reply = try await console.get(address, as: caller)
                        let mayLook = route.hasSuffix("/audit") ? [.operator_, .auditor].contains(caller) : true
                        #expect(
                            reply.status == (mayLook ? 200 : 403),
                            "\(caller) \(address): \(reply.text.prefix(300))"
                        )
                        #expect(stage.leaks(reply.text) == [], "\(caller) \(address)")
                        seen += reply.text
                    }
                }
            }
            var events = EventReader(try await console.open(Self.endless))
            for _ in SecrecyStage.seeds {
                let event = try #require(try await events.next("message"))
                #expect(stage.leaks(event.data) == [])
            }
            // The walk would find nothing in empty answers.
            for marker in SecrecyStage.payloads { #expect(seen.contains(marker) == !isHidden, "\(marker)") }
            #expect(seen.contains("(masked)") == !isHidden)
        }
    }

    @Test("a token is shown to who has the right and asks for it, and to nobody else", arguments: [false, true])
    func revealed(isHidden: Bool) async throws {
        try await SecrecyStage.run(isHidden: isHidden) { console, stage in
            for route in [
                "/api/v1/messages", "/api/v1/messages/:key", "/api/v1/conflicts/:key", "/api/v1/quarantine/:id",
            ] {
                var found = ""
                for address in try #require(stage.addresses(route)) {
                    for caller in [ConsoleHarness.Caller.viewer, .operator_, .auditor] {
                        #expect(try await console.get("\(address)?reveal=token", as: caller).status == 403)
                    }
                    let reply = try await console.get("\(address)?reveal=token", as: .revealer)
                    #expect(stage.leaks(reply.text, seesTokens: true) == [], "\(address)")
                    let bytes = (reply.object["stanza_base64"] as? String).flatMap { Data(base64Encoded: $0) }
                    found += reply.text + String(decoding: bytes ?? Data(), as: UTF8.self)
                }
                // A quarantined stanza is a payload as a whole.
                let isShown = !isHidden || route != "/api/v1/quarantine/:id"
                #expect(found.contains(SecrecyStage.tokens[0]) == isShown, "\(route)")
            }
        }
    }

    @Test("no filter, order or group tells what an answer does not show", arguments: [false, true])
    func oracles(isHidden: Bool) async throws {
        try await SecrecyStage.run(isHidden: isHidden) { console, _ in
            for path in ["/api/v1/dead?group=PAYLOADgroup", "/dead/letters?group=PAYLOADgroup"] {
                #expect(try await console.get(path).status == (isHidden ? 403 : 200), "\(path)")
            }
            #expect(try await console.get("/api/v1/dead?group=timeout").status == 200)
            let frozen = try await console.act("dead/retry", #"{"filter":{"group":"PAYLOADgroup"}}"#)
            #expect(frozen.status == (isHidden ? 403 : 201))
            // Order and expressions would spell out the token of a JSON text in a string.
            for clause in ["data.s%3Ex", "data.s~SECRET", "data~SECRET", "data.device_registration_id%3EA"] {
                let reply = try await console.get("/api/v1/messages?where=\(clause)")
                #expect(reply.items.isEmpty && [200, 403].contains(reply.status), "\(clause)")
                #expect(
                    try await console.get("/api/v1/messages?where=\(clause)", as: .revealer).items.isEmpty == isHidden
                )
            }
        }
    }

    @Test("what actions answer shows no more than what they act on", arguments: [false, true])
    func actions(isHidden: Bool) async throws {
        let routes = try await SecrecyStage.routes()
        try await SecrecyStage.run(isHidden: isHidden) { console, stage in
            for (route, methods) in routes where methods.contains(.post) && route.hasPrefix("/api/v1/") {
                let path = route.replacing(":name", with: "orders")
                for address in try #require(stage.addresses(path), "the walk has no address for \(route)") {
                    let reply = try await console.act(String(address.dropFirst("/api/v1/".count)))
                    #expect(stage.leaks(reply.text) == [], "\(address): \(reply.text)")
                }
            }
            let frozen = try await console.act("dead/discard", #"{"filter":{"handler":"billing"}}"#)
            #expect(frozen.status == 201 && frozen.text.contains(isHidden ? "(hidden)" : "PAYLOADgroup"))
            #expect(stage.leaks(frozen.text) == [])
            let id = try #require(frozen.object["id"] as? String)
            let started = try await console.act("dead/discard", #"{"id":"\#(id)"}"#)
            #expect(started.status == 202 && stage.leaks(started.text) == [])
        }
    }

    @Test("a conflict is released by the name that it has where fingerprints are hidden")
    func release() async throws {
        try await SecrecyStage.run(isHidden: true) { console, stage in
            for address in try #require(stage.addresses("/api/v1/conflicts/:key/:fingerprint/release")) {
                let reply = try await console.act(String(address.dropFirst("/api/v1/".count)))
                // It is found, and nobody takes it; another name would be unknown.
                #expect([200, 409].contains(reply.status) && stage.leaks(reply.text) == [], "\(reply.text)")
            }
            let next = try await console.get("/api/v1/conflicts?limit=1").object["next"] as? String
            let after = try #require(next?.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            #expect(stage.leaks(after) == [])
            #expect(try await console.get("/api/v1/conflicts?limit=1&after=\(after)").items.isEmpty)
        }
    }

    @Test("the trail names no token in the group of a filter, whoever looks at it")
    func subject() {
        let token = String(repeating: "aB3_x", count: 30)
        let subject = "dead letters, handler 'a', group 'no device \(token)'"
        let shown = "dead letters, handler 'a', group 'no device (masked)'"
        #expect(AuditSubject.shown(subject, to: Sight(tokens: false, payloads: true)) == shown)
        #expect(AuditSubject.shown(subject, to: Sight(tokens: false, payloads: false)).contains("group '(hidden)'"))
    }

    @Test("names of fingerprints are a permutation that another process does not know")
    func aliases() {
        let aliases = Aliases(isHiding: true)
        let fingerprint = Digest128(high: 1, low: 2)
        let name = aliases.name(of: fingerprint)
        #expect(name != fingerprint && aliases.fingerprint(of: name) == fingerprint)
        #expect(Aliases(isHiding: true).name(of: fingerprint) != name)
        #expect(aliases.name(of: Digest128(high: 1, low: 3)) != name)
        #expect(Aliases(isHiding: false).name(of: fingerprint) == fingerprint)
    }
}
