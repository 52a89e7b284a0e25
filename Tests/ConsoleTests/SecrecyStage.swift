import ConsoleSupport
import Foundation
import HTTPTypes
import Logging
import QuerySupport
import Testing
import UpstreamConfiguration

@testable import Console

/// A database in which every field of every resource holds a marker, and the walk over all that is served.
struct SecrecyStage {
    /// The device's registration token, and the one that a receipt holds.
    static let tokens = ["FAKEtoken-SECRET-device", "FAKEtoken-SECRET-receipt"]
    /// What devices sent and handlers said.
    static let payloads = [
        "PAYLOADdata", "PAYLOADextra", "PAYLOADraw", "PAYLOADcopy", "PAYLOADwaiting", "PAYLOADdead", "PAYLOADgroup",
        "PAYLOADattempt", "PAYLOADstanza", "PAYLOADselection", "PAYLOADreplay", "PAYLOADevent", "PAYLOADjob",
        "PAYLOADaudit",
    ]

    static var seeds: [Seed] {
        let (device, receipt) = (tokens[0], tokens[1])
        let nested = "{\\\"device_registration_id\\\":\\\"\(receipt)\\\"}"
        return [
            Seed(
                id: "plain",
                token: device,
                data: #"{"m":"PAYLOADdata","s":"\#(nested)"}"#,
                extra: #"{"x":"PAYLOADextra"}"#
            ),
            Seed(id: "raw", token: device, data: nil, raw: #"{"m":"PAYLOADraw\u0000"}"#, at: 1),
            Seed(
                id: "receipt",
                token: "gcm.googleapis.com",
                data: #"{"device_registration_id":"\#(receipt)"}"#,
                extra: #"{"device_registration_id":"\#(receipt)"}"#,
                type: "receipt",
                at: 2
            ),
        ]
    }

    /// Fills the other tables.
    static func prepare(_ database: QueryFixture) async throws {
        let (device, receipt) = (tokens[0], tokens[1])
        let copy = Seed(id: "plain", token: device, data: #"{"m":"PAYLOADcopy"}"#, at: 3)
        try await database.add([copy], into: "conflicts")
        // Each message's own token, and the echo of a body.
        let said = """
            no device ' || CASE WHEN message_type = 'receipt' THEN '\(receipt)' ELSE registration_token END
            || ': {"device_registration_id":"\(receipt)"}
            """
        let stanza =
            #"<message><gcm>{"fr\u006fm":["\#(device)"],"data":{"m":"PAYLOADstanza","device_registration_id":"\#(receipt)"}}</gcm></message>"#
        let torn = "<message><gcm>{\"m\":\"x\",\"from\":\"\(device)\"</gcm></message>"
        let selection = #"{"where":["data.m=PAYLOADselection","data.device_registration_id=\#(receipt)"]}"#
        try await database.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders'), ('billing');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
            SELECT 'orders', message_key, received_at, 1, now() + interval '1 h', 'PAYLOADwaiting \(said)'
            FROM upstream.messages;
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
            ) SELECT 'billing', message_key, received_at, 1, now(), 0, 'PAYLOADdead \(said)', 'PAYLOADgroup'
            FROM upstream.messages;
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, error_groups
            ) SELECT now(), 'orders', 'w', 'retry', received_at, received_at, ARRAY[message_key], '{1}', '{1}',
                ARRAY['PAYLOADattempt']
            FROM upstream.messages;
            INSERT INTO upstream.quarantine (
                sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
            )
            SELECT '1', 'payload_not_json', 'd', convert_to(text, 'UTF8'), sha256(convert_to(text, 'UTF8')), 1, now(), now()
            FROM (VALUES ('\(stanza)'), ('\(torn)')) AS stanzas (text);
            INSERT INTO upstream.replays (
                name, kind, target, occupies, selection, options, state, created_by, planned, last_error
            ) VALUES (
                'again', 'handlers', 'orders', '{}', '\(selection)', '{"pace":{}}', 'failed', 'x', 0, 'PAYLOADreplay'
            );
            INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
            SELECT replay_id, 'failed', 'x', 0, 'PAYLOADevent' FROM upstream.replays;
            INSERT INTO upstream.jobs (action, subject, groups, state, planned, chunks, created_by, expires_at)
            VALUES (
                'dead.retry', 'dead letters, group ''PAYLOADjob''',
                '[{"handler":"billing","error_group":"PAYLOADjob","count":1}]', 'finished', 0, 0, 'x', now() + interval '1 h'
            );
            INSERT INTO upstream.maintenance_requests (kind, device_key, who, reason, requested_at)
            SELECT DISTINCT 'forget', device_key, 'x', 'asked', now() FROM upstream.messages;
            SELECT upstream.record_audit('x', 'console', 'dead.retry', 'dead letters, group ''PAYLOADaudit''', 1, NULL);
            """
        )
    }

    /// Runs a console over it, and gives the test what it needs to walk.
    static func run(
        isHidden: Bool,
        _ body: @escaping @Sendable (ConsoleHarness, SecrecyStage) async throws -> Void
    ) async throws {
        try await ConsoleHarness.run(
            seeds,
            configure: { $0.showsPayloads = !isHidden },
            prepare: prepare,
            { console in try await body(console, try await SecrecyStage(console, isHidden: isHidden)) }
        )
    }

    let console: ConsoleHarness
    let isHidden: Bool
    /// Hashes of payloads: markers as well, where these are hidden.
    let fingerprints: [String]
    /// Values for the parameters of routes.
    private let values: [String: [String]]

    init(_ console: ConsoleHarness, isHidden: Bool) async throws {
        (self.console, self.isHidden) = (console, isHidden)
        func all(_ value: String, _ table: String) async throws -> [String] {
            let text = try await console.database.text(
                "SELECT string_agg((\(value))::text, ' ') FROM upstream.\(table)"
            )
            return text?.split(separator: " ").map(String.init) ?? []
        }
        fingerprints =
            try await all("fingerprint", "message_ids") + all("fingerprint", "conflicts")
            + all("upstream.release_key(message_key, fingerprint)", "conflicts")
        let keys = try await all("message_key", "messages")
        let conflict = try #require(try await console.get("/api/v1/conflicts").items.first)
        let name = try #require(conflict["fingerprint"] as? String)
        let pair = "\(conflict["message_key"] as? String ?? "")/\(name)"
        let copied = [conflict["message_key"] as? String ?? ""]
        let stanzas = try await all("id", "quarantine")
        let devices = try await all("device_key", "messages")
        let (replays, jobs) = (try await all("replay_id", "replays"), try await all("job", "jobs"))
        values = [
            "/api/v1/messages/:key": keys, "/messages/:reference": keys + ["plain"],
            "/api/v1/conflicts/:key": copied, "/conflicts/:key/:fingerprint": [pair],
            "/api/v1/quarantine/:id": stanzas, "/quarantine/:id": stanzas + stanzas.map { $0 + "?view=hex" },
            "/api/v1/replays/:id": replays, "/replays/:id": replays, "/api/v1/jobs/:id": jobs,
            "/api/v1/jobs/:id/stream": jobs, "/handlers/:name": ["orders"],
            "/api/v1/workers/:instance/dismiss": ["00000000-0000-4000-8000-000000000000"],
            "/api/v1/conflicts/:key/:fingerprint/release": [pair], "/api/v1/jobs/:id/cancel": jobs,
            "/api/v1/quarantine/:id/dismiss": stanzas, "/api/v1/devices/:device/forget": devices,
            // What it can read leads elsewhere.
            "/find": ["/find?q=unknown:x"],
        ]
        .merging(["start", "pause", "resume", "cancel"].map { ("/api/v1/replays/:id/\($0)", replays) }) { $1 }
    }

    /// Addresses that a route serves; nil for a route that the walk does not know.
    func addresses(_ route: String) -> [String]? {
        guard let colon = route.firstIndex(of: ":") else { return values[route] ?? [route] }
        guard let values = values[route] else { return nil }
        // What follows the last parameter.
        let last = route.split(separator: "/").last ?? ""
        let tail = last.hasPrefix(":") ? "" : "/" + last
        return values.map { route[..<colon] + $0 + tail }
    }

    /// What somebody finds who must not: a text that a marker is in.
    func leaks(_ text: String, seesTokens: Bool = false) -> [String] {
        // The bytes of a hexadecimal dump are read as well.
        let dumped = text.matches(of: #/[0-9a-f]{6}  ((?:[0-9a-f]{2} {1,2}){1,16})/#).map { line in
            let bytes = line.output.1.split(separator: " ").compactMap { UInt8($0, radix: 16) }
            return String(decoding: bytes, as: UTF8.self)
        }.joined()
        var markers = seesTokens ? [] : Self.tokens
        if isHidden { markers += Self.payloads + fingerprints }
        return markers.filter { text.contains($0) || dumped.contains($0) }
    }

    /// A console that serves nobody, for what it would serve.
    static func server() async throws -> ConsoleServer {
        let database = try await QueryFixture()
        let services = ConsoleServices(
            reading: database.settings,
            sessions: 1,
            writing: database.settings,
            settings: ConsoleSettings(version: "1.2.3"),
            logger: Logger(label: "test")
        )
        let access = try ConsoleAccess(ConsoleAccess.Settings(), logger: services.logger)
        return try #require(try ConsoleServer(.tcp(host: "127.0.0.1", port: 0), services: services, access: access))
    }

    /// Every path that is served, with its methods.
    static func routes() async throws -> [String: Set<HTTPRequest.Method>] {
        let server = try await server()
        // As they were written, with colons.
        let routes = server.router().routes.map { path, methods in
            (path.replacing("{", with: ":").replacing("}", with: ""), methods)
        }
        return Dictionary(routes) { $0.union($1) }
    }
}
