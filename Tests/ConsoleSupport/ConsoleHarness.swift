package import Console
import Foundation
import IntegrationSupport
import Logging
package import NIOCore
package import NIOHTTP1
import Postgres
package import QuerySupport
import ServiceLifecycle
package import UpstreamConfiguration

/// The real console over a migrated database, for one test.
package struct ConsoleHarness: Sendable {
    /// Who asks.
    package enum Caller: String, CaseIterable, Sendable {
        case viewer
        /// May act.
        case operator_ = "operator"
        case auditor
        /// A viewer who may see registration tokens.
        case revealer
        /// Without a token.
        case nobody

        /// The token; none is a secret of anybody's.
        package var token: String? {
            self == .nobody ? nil : "FAKE-token-of-the-\(rawValue)-for-tests-only"
        }

        fileprivate var principal: Principal? {
            switch self {
            case .viewer, .revealer: Principal(name: rawValue, role: .viewer, reveals: self == .revealer)
            case .operator_: Principal(name: rawValue, role: .operator_)
            case .auditor: Principal(name: rawValue, role: .auditor)
            case .nobody: nil
            }
        }
    }

    /// The port on 127.0.0.1.
    package let port: Int
    /// What the database was filled with; `script`, `text` and `add` reach it.
    package let database: QueryFixture
    /// Who is let in.
    package let access: ConsoleAccess

    /// Runs a console over a database of its own, and ends it in order.
    ///
    /// - Parameters:
    ///   - seeds: Messages that are stored beforehand.
    ///   - given: A database that is there; nil for one of its own.
    ///   - readURL: `database.read_url`; nil for none.
    ///   - configure: Changes the settings.
    ///   - rules: Who is let in, besides the callers.
    ///   - limits: What one connection may use.
    ///   - certificate: What it serves with; nil for plain HTTP, which is what this harness's client speaks.
    ///   - prepare: Is given the database before the console is there.
    ///   - role: As whom the console signs in to the database; nil for the tables' owner.
    ///   - statementTimeout: How long its statements may take, in milliseconds.
    ///   - body: The test.
    /// - Throws: What the server or `body` throws.
    package static func run(
        _ seeds: [Seed] = [],
        on given: QueryFixture? = nil,
        readURL: String? = nil,
        configure: (inout ConsoleSettings) -> Void = { _ in },
        rules: ConsoleAccess.Settings = ConsoleAccess.Settings(),
        limits: ConsoleLimits = ConsoleLimits(),
        certificate: ConsoleTLSConfiguration? = nil,
        prepare: (QueryFixture) async throws -> Void = { _ in },
        role: String? = nil,
        statementTimeout: Int = 30_000,
        _ body: @escaping @Sendable (ConsoleHarness) async throws -> Void
    ) async throws {
        let database: QueryFixture
        if let given { database = given } else { database = try await QueryFixture(seeds) }
        try await prepare(database)
        let url = database.url.replacingOccurrences(of: "user=upstream", with: "user=\(role ?? "upstream")")
        var sessions = try PostgresSettings(url: url)
        sessions.statementTimeout = statementTimeout
        var settings = ConsoleSettings(version: "0.0.0-test")
        configure(&settings)
        let quiet = Logger.quiet
        var standby = try readURL.map { try PostgresSettings(url: $0) }
        standby?.isReader = true
        let services = ConsoleServices(
            reading: sessions,
            standby: standby,
            sessions: 4,
            writing: sessions,
            settings: settings,
            logger: quiet
        )
        let tokens = Caller.allCases.compactMap { caller in
            caller.principal.map { principal in
                ConsoleToken(principal) { [Array((caller.token ?? "").utf8)] }
            }
        }
        var rules = rules
        rules.tokens += tokens
        let access = try ConsoleAccess(rules, logger: quiet)
        try await serve(services, access, certificate, limits, quiet) { port in
            try await body(ConsoleHarness(port: port, database: database, access: access))
        }
        await services.close()
    }

    private static func serve(
        _ services: ConsoleServices,
        _ access: ConsoleAccess,
        _ certificate: ConsoleTLSConfiguration?,
        _ limits: ConsoleLimits,
        _ logger: Logger,
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let (ports, port) = AsyncStream<Int>.makeStream()
        let address = ListenAddress.tcp(host: "127.0.0.1", port: 0)
        let made = try ConsoleServer(
            address,
            services: services,
            access: access,
            certificate: certificate,
            limits: limits
        ) { port.yield($0) }
        guard let server = made else { return }
        let group = ServiceGroup(configuration: .init(services: [.init(service: server)], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            for await port in ports {
                try await body(port)
                break
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }
}

/// An answer, read whole.
package struct ConsoleReply: Sendable {
    /// The HTTP status.
    package let status: Int
    /// The headers.
    package let headers: HTTPHeaders
    /// The body.
    package let body: [UInt8]

    /// A header's first value.
    package func header(_ name: String) -> String? { headers.first(name: name) }

    /// The body as text.
    package var text: String { String(decoding: body, as: UTF8.self) }

    /// The body as a JSON object; empty where it is none.
    package var object: [String: Any] { (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:] }

    /// The list `items` of an answer; empty where there is none.
    package var items: [[String: Any]] { object["items"] as? [[String: Any]] ?? [] }
}

extension ConsoleHarness {
    /// Sends a request and reads the answer.
    ///
    /// - Parameters:
    ///   - path: The path with its query, percent-encoded, such as `/api/v1/messages?limit=2`.
    ///   - method: The method.
    ///   - caller: Whose token is sent.
    ///   - headers: Other headers.
    ///   - json: A body, sent as `application/json`.
    /// - Throws: Where the connection fails, or the answer takes more than 30 s.
    /// - Returns: The answer.
    package func send(
        _ path: String,
        _ method: String = "GET",
        as caller: Caller = .viewer,
        headers: [String: String] = [:],
        json: String? = nil
    ) async throws -> ConsoleReply {
        let response = try await open(path, method, as: caller, headers: headers, json: json, within: .seconds(30))
        let body = try await response.collect()
        return ConsoleReply(status: Int(response.status.code), headers: response.headers, body: body)
    }

    /// Sends a request and gives the answer as it comes, for streams.
    package func open(
        _ path: String,
        _ method: String = "GET",
        as caller: Caller = .viewer,
        headers: [String: String] = [:],
        json: String? = nil,
        within limit: TimeAmount = .seconds(120)
    ) async throws -> OpenReply {
        var head = HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method), uri: path)
        head.headers.add(name: "Host", value: "127.0.0.1:\(port)")
        if let token = caller.token { head.headers.add(name: "Authorization", value: "Bearer \(token)") }
        if json != nil { head.headers.add(name: "Content-Type", value: "application/json") }
        if json != nil || head.method == .POST {
            head.headers.add(name: "Content-Length", value: "\(json?.utf8.count ?? 0)")
        }
        for (name, value) in headers { head.headers.replaceOrAdd(name: name, value: value) }
        return try await ConsoleClient.send(port, head, json.map { Array($0.utf8) } ?? [], within: limit)
    }

    /// GET.
    package func get(
        _ path: String,
        as caller: Caller = .viewer,
        headers: [String: String] = [:]
    ) async throws -> ConsoleReply { try await send(path, as: caller, headers: headers) }

    /// POST of JSON.
    package func post(
        _ path: String,
        _ json: String? = nil,
        as caller: Caller = .operator_,
        headers: [String: String] = [:]
    ) async throws -> ConsoleReply { try await send(path, "POST", as: caller, headers: headers, json: json) }
}
