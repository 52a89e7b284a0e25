import ConsoleSupport
import Testing
import UpstreamConfiguration
import Vocabulary

@testable import Console

/// What strangers' pages, and clients that say more than they may, get.
@Suite struct ForgeryTests {
    /// A session's cookie.
    private static func cookie(_ console: ConsoleHarness) async throws -> String {
        let path = console.access.oneTimePath(for: Principal(name: "x", role: .operator_), lifetime: .seconds(60))
        let set = try #require(try await console.get(path, as: .nobody).header("Set-Cookie"))
        return String(set.prefix { $0 != ";" })
    }

    /// Access by a proxy in a network.
    private static func rules(_ network: String, _ users: [String: Principal]) -> ConsoleAccess.Settings {
        var rules = ConsoleAccess.Settings()
        let networks = [Network(network)].compactMap(\.self)
        rules.proxy = TrustedProxy(networks: networks, header: .named("X-Forwarded-User"), users: users)
        return rules
    }

    /// The status of a POST to a path that takes none: 405 means that the request was let through.
    private static func post(_ console: ConsoleHarness, _ headers: [String: String]) async throws -> Int {
        try await console.send("/api/v1/whoami", "POST", as: .nobody, headers: headers, json: "{}").status
    }

    @Test("a request by a cookie that changes something comes from our own pages, and holds JSON")
    func cookies() async throws {
        try await ConsoleHarness.run { console in
            let cookie = ["Cookie": try await Self.cookie(console)]
            func post(_ headers: [String: String]) async throws -> Int {
                try await Self.post(console, cookie.merging(headers) { $1 })
            }
            let own = "http://127.0.0.1:\(console.port)"
            #expect(try await post(["Sec-Fetch-Site": "same-origin"]) == 405)
            #expect(try await post(["Origin": own]) == 405)
            #expect(try await post([:]) == 403)
            for site in ["cross-site", "same-site", "same-origin, cross-site", ""] {
                #expect(try await post(["Sec-Fetch-Site": site, "Origin": own]) == 403, "\(site)")
            }
            for origin in ["http://evil.example", "null", "http://127.0.0.1", own + ".evil.example", "file://"] {
                #expect(try await post(["Origin": origin]) == 403, "\(origin)")
            }
            for type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
                let headers = ["Sec-Fetch-Site": "same-origin", "Content-Type": type]
                #expect(try await post(headers) == 415, "\(type)")
            }
            // A token is no cookie: no page can add it.
            #expect(
                try await console.post("/api/v1/whoami", "{}", headers: ["Origin": "http://evil.example"]).status == 405
            )
            let embedded = ["Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"].merging(cookie) { $1 }
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: embedded).status == 403)
            let followed = ["Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"].merging(cookie) { $1 }
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: followed).status == 200)
        }
    }

    @Test("a link elsewhere shows no token, and leaves nothing in the audit trail in the name of who follows it")
    func reveal() async throws {
        try await ConsoleHarness.run { console in
            for site in ["cross-site", "same-site", "same-origin, cross-site"] {
                let link = ["Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"]
                for query in ["reveal=token", "limit=1&reveal=token", "%72eveal=token", "reveal"] {
                    for path in ["/api/v1/messages", "/messages/a"] {
                        let reply = try await console.get("\(path)?\(query)", as: .revealer, headers: link)
                        #expect(
                            reply.status == 403 && reply.text.contains("own pages only"),
                            "\(site) \(path) \(query)"
                        )
                    }
                }
                #expect(try await console.get("/api/v1/messages?limit=1", headers: link).status == 200)
            }
            for headers in [["Sec-Fetch-Site": "same-origin"], ["Sec-Fetch-Site": "none"], [:]] {
                let reply = try await console.get("/api/v1/messages?reveal=token", as: .revealer, headers: headers)
                #expect(reply.status == 200)
            }
        }
    }

    @Test("nobody is signed in or out by another site's form")
    func signing() async throws {
        try await ConsoleHarness.run { console in
            let token = ConsoleHarness.Caller.viewer.token ?? ""
            for path in ["/sign-in", "/sign-out"] {
                for headers in [["Origin": "https://evil.example"], ["Sec-Fetch-Site": "cross-site"], [:]] {
                    let form = ["Content-Type": "application/x-www-form-urlencoded"].merging(headers) { $1 }
                    let body = "token=\(token)"
                    let reply = try await console.send(path, "POST", as: .nobody, headers: form, json: body)
                    #expect(reply.status == 403 && reply.header("Set-Cookie") == nil)
                    // The router takes these for the same path.
                    for spelling in [path + "/", path + "//", path + "/?a=b"] {
                        let reply = try await console.send(spelling, "POST", as: .nobody, headers: form, json: body)
                        #expect(reply.status == 404 && reply.header("Set-Cookie") == nil, "\(spelling)")
                    }
                }
            }
            #expect(try await console.get("/api//v1/whoami").status == 404)
            #expect(try await console.get("/api/v1/whoami/").status == 404)
        }
    }

    @Test("a user's name is believed from the proxy's network only, and only once")
    func proxy() async throws {
        func trusting(_ network: String) -> ConsoleAccess.Settings {
            let users = [
                "ada": Principal(name: "", role: .operator_, reveals: true), "root": Principal(name: "", role: .viewer),
                "jos\u{E9}": Principal(name: "", role: .operator_),
            ]
            return Self.rules(network, users)
        }
        let ada = ["X-Forwarded-User": "ada"]
        try await ConsoleHarness.run(rules: trusting("10.0.0.0/8")) { console in
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: ada).status == 401)
            let viewer = try await console.get("/api/v1/whoami", as: .viewer, headers: ada)
            #expect(viewer.object["name"] as? String == "viewer")
        }
        try await ConsoleHarness.run(rules: trusting("127.0.0.0/8")) { console in
            let reply = try await console.get("/api/v1/whoami", as: .nobody, headers: ada)
            #expect(reply.object["name"] as? String == "ada" && reply.object["role"] as? String == "operator")
            #expect(reply.header("Strict-Transport-Security") == nil)
            let stranger = ["X-Forwarded-User": "eve"]
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: stranger).status == 403)
            // Names are bytes: another spelling of the same letters is somebody else.
            let twin = ["X-Forwarded-User": "jose\u{301}"]
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: twin).status == 403)
            #expect(try await console.get("/api/v1/whoami", as: .nobody).status == 401)
            // The browser has signed in to the proxy: its requests can be forged as those with a cookie.
            #expect(try await Self.post(console, ada) == 403)
            #expect(try await Self.post(console, ada.merging(["Sec-Fetch-Site": "same-origin"]) { $1 }) == 405)
            let secure = ada.merging(["X-Forwarded-Proto": "https"]) { $1 }
            let overTLS = try await console.get("/api/v1/whoami", as: .nobody, headers: secure)
            #expect(overTLS.header("Strict-Transport-Security") == "max-age=31536000")
            for extra in ["X-Forwarded-User: eve", "x-forwarded-user: ada", "X-Forwarded-User: "] {
                let head = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                let answer = try RawConnection.exchange(
                    console.port,
                    head + "X-Forwarded-User: ada\r\n\(extra)\r\n\r\n"
                )
                #expect(answer?.hasPrefix("HTTP/1.1 400") == true, "\(answer ?? "")")
            }
            // Spellings that a proxy might not know as the same header are not the same here either.
            for name in ["X_Forwarded_User", "X-Forwarded-User\t", "X-Forwarded-User "] {
                let head = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                let answer = try RawConnection.exchange(console.port, head + "\(name): ada\r\n\r\n")
                #expect(answer?.contains("\"ada\"") == false, "\(answer ?? "")")
            }
        }
    }

    @Test("behind a proxy with TLS the cookie is of the host and only for TLS, and guesses count by client")
    func secureCookie() async throws {
        try await ConsoleHarness.run(rules: Self.rules("127.0.0.1/32", [:])) { console in
            let path = console.access.oneTimePath(for: Principal(name: "x", role: .viewer), lifetime: .seconds(60))
            let reply = try await console.get(path, as: .nobody, headers: ["X-Forwarded-Proto": "https"])
            let set = try #require(reply.header("Set-Cookie"))
            #expect(set.hasPrefix("__Host-upstream-session=") && set.hasSuffix("; SameSite=Strict; Secure"))
            for number in 0..<20 {
                let guess = ["Authorization": "Bearer FAKE-\(number)", "X-Forwarded-For": "203.0.113.9, 198.51.100.7"]
                let status = try await console.get("/api/v1/whoami", as: .nobody, headers: guess).status
                #expect(status == (number < 10 ? 401 : 429))
            }
            let other = ["X-Forwarded-For": "198.51.100.7, 203.0.113.9"]
            #expect(try await console.get("/api/v1/whoami", headers: other).status == 200)
            // It signs nobody in, so a user's name is the client's own, and nothing.
            let name = ["X-Forwarded-User": "ada"]
            #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: name).status == 401)
            #expect(try await console.get("/api/v1/whoami", headers: name).object["name"] as? String == "viewer")
        }
    }

    @Test("a proxy's user who is named as a token is not let in: the audit trail could not tell them apart")
    func names() async throws {
        let users = ["*": Principal(name: "", role: .operator_)]
        try await ConsoleHarness.run(rules: Self.rules("127.0.0.1/32", users)) { console async throws in
            for name in ["viewer", "auditor"] {
                let user = ["X-Forwarded-User": name]
                #expect(try await console.get("/api/v1/whoami", as: .nobody, headers: user).status == 403)
            }
            let ada = ["X-Forwarded-User": "ada"]
            #expect(
                try await console.get("/api/v1/whoami", as: .nobody, headers: ada).object["name"] as? String == "ada"
            )
        }
    }

    @Test("a stranger's name for our address is not ours (DNS rebinding)")
    func hosts() async throws {
        try await ConsoleHarness.run { console in
            for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::1", "@"] {
                let reply = try await console.get("/api/v1/whoami", headers: ["Host": host])
                #expect(reply.status == 421, "\(host)")
            }
            for host in ["localhost", "LOCALHOST:9465", "127.0.0.1:1", "[::1]:9465", "10.1.2.3"] {
                #expect(try await console.get("/api/v1/whoami", headers: ["Host": host]).status == 200, "\(host)")
            }
            // A probe names whatever it likes.
            #expect(try await console.get("/livez", as: .nobody, headers: ["Host": "pod"]).status == 200)
        }
        #expect(AllowedHosts(["console.example"], isOnLoopback: false).contains("Console.Example:8443"))
        #expect(!AllowedHosts(["console.example"], isOnLoopback: false).contains("evil.example"))
        #expect(AllowedHosts([], isOnLoopback: false).contains("anything.example"))
    }

    @Test("where nobody signs in, a program of this machine may read, and another site's page may nothing")
    func anybody() async throws {
        var rules = ConsoleAccess.Settings()
        rules.anybody = Principal(name: "local", role: .operator_)
        try await ConsoleHarness.run(rules: rules) { console async throws in
            let path = "/api/v1/whoami"
            #expect(try await console.get(path, as: .nobody).object["name"] as? String == "local")
            #expect(try await Self.post(console, [:]) == 405)
            #expect(try await Self.post(console, ["Origin": "http://evil.example"]) == 403)
            #expect(try await Self.post(console, ["Content-Type": "text/plain"]) == 415)
            let image = ["Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"]
            #expect(try await console.get(path, as: .nobody, headers: image).status == 403)
            // A proxy's connection comes from this machine too, and its clients from anywhere.
            for name in ["X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-User", "Forwarded", "VIA", "X-Real-IP"] {
                #expect(try await console.get(path, as: .nobody, headers: [name: "a"]).status == 401, "\(name)")
            }
        }
    }

    @Test("every answer forbids scripts of others, frames, guessing of types and keeping")
    func headers() async throws {
        try await ConsoleHarness.run { console in
            for path in ["/api/v1/whoami", "/nothing", "/sign-in", "/livez", "/readyz"] {
                let reply = try await console.get(path, as: .viewer)
                let policy = try #require(reply.header("Content-Security-Policy"))
                #expect(
                    policy.hasPrefix("default-src 'none'; script-src 'self';")
                        && policy.contains("frame-ancestors 'none'")
                )
                #expect(reply.header("X-Content-Type-Options") == "nosniff")
                #expect(reply.header("Cache-Control") == "no-store")
                #expect(reply.header("Referrer-Policy") == "same-origin")
                #expect(reply.header("Cross-Origin-Opener-Policy") == "same-origin")
                #expect(reply.header("Cross-Origin-Resource-Policy") == "same-origin")
                #expect(reply.header("X-Frame-Options") == "DENY")
                #expect(reply.header("Server") == nil)
            }
            let page = try await console.get("/nothing", as: .viewer)
            #expect(page.status == 404 && page.header("Content-Type") == "text/html; charset=utf-8")
        }
    }
}
