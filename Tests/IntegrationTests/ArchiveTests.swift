import Foundation
import IntegrationSupport
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// What did not come is fetched from the server's archive, on every standard server that keeps one.
    @Suite struct ArchiveTests {
        /// A worker's configuration that catches up.
        private static func yaml(_ scenario: ServerScenario) throws -> String {
            let own = try scenario.yaml()
            return own.replacing("    dialect: xmpp\n", with: "    dialect: xmpp\n    archive: {catch_up: on}\n")
        }

        /// Sends messages that servers archive.
        private static func send(_ ids: some Sequence<String>, _ scenario: ServerScenario) throws {
            for id in ids {
                let json = #"{"message_id":"\#(id)","from":"FAKE-token","category":"c"}"#
                try scenario.device.send(
                    stanza:
                        "<message to='\(scenario.device.address)' id='\(id)'><gcm xmlns='google:mobile:data'>\(json)"
                        + "</gcm><store xmlns='urn:xmpp:hints'/></message>"
                )
            }
        }

        /// The results of the readings that have reached the archive's end.
        private static func readings(_ worker: LocalWorker) -> [Int] {
            worker.logs.lines.filter { $0.contains("\"archive.read\"") }.compactMap { line in
                line.firstMatch(of: /"count":(\d+)/).flatMap { Int($0.1) }
            }
        }

        private static func waitUntilRead(_ worker: LocalWorker) async throws {
            try await waitUntil("the archive is read") { !readings(worker).isEmpty }
        }

        /// Lets a first worker find the archive's end, after it has taken messages.
        private static func begin(_ ids: [String], _ scenario: ServerScenario) async throws {
            try await scenario.withWorker(yaml(scenario)) { worker in
                try send(ids, scenario)
                try await scenario.waitForAcks(ids)
                try await waitUntilRead(worker)
                #expect(readings(worker) == [0] && worker.settled(.stored) == ids.count)
            }
        }

        private static func point(_ scenario: ServerScenario) async throws -> String {
            try await scenario.database.texts("SELECT archive_id FROM upstream.archive_points").first ?? ""
        }

        @Test(
            "what is sent while nobody is there and the server stores nothing offline comes from its archive: once, and acked",
            arguments: ServerKind.allCases
        )
        func away(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ServerOptions(archive: true, offlineStore: false)) { scenario in
                let ids = ServerScenario.ids(1...270)
                try await Self.begin(Array(ids[..<20]), scenario)
                try Self.send(ids[20..<250], scenario)
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try Self.send(ids[250...], scenario)
                    try await Self.waitUntilRead(worker)
                    try await scenario.waitForAcks(ids)
                    // A stream that was lost inside a page reads that page again.
                    let read = Self.readings(worker)
                    #expect(read.count == 1 && read[0] >= 250, "\(read)")
                    // A slow server delivers what it had not read when the worker became present: known copies.
                    let counts = worker.metrics.messages.snapshot()
                    let duplicates = worker.settled(.duplicate)
                    #expect(worker.settled(.stored) == 250)
                    #expect(counts.received(.upstream) == 250 + duplicates && counts.inFlight == 0)
                    #expect(worker.metrics.stanzas[.archive].value == read[0])
                    #expect(worker.metrics.connections(sender: 0, state: .bound).value == 1)
                }
                try await scenario.expectStored(ids)
                #expect(scenario.device.acks.sorted() == ids.sorted())
            }
        }

        @Test("what Prosody loses when its queue overflows comes from its archive")
        func overflow() async throws {
            try await ServerScenario.run(.prosody, ServerOptions(queue: 20, archive: true)) { scenario in
                let ids = ServerScenario.ids(1...65)
                try await Self.begin(Array(ids[..<5]), scenario)
                try await scenario.database.withLockedLedger {
                    let worker = try await scenario.startWorker(Self.yaml(scenario))
                    try Self.send(ids[5...], scenario)
                    try await waitUntil("the queue has overflowed") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 60
                    }
                    worker.send(SIGKILL)
                    _ = try await worker.exitCode()
                    try await scenario.database.endWaitingSessions()
                }
                try await scenario.database.waitUntilAbandoned()
                // The killed worker's lease.
                try await scenario.database.script("UPDATE upstream.archive_points SET leased_until = NULL")
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try await Self.waitUntilRead(worker)
                    try await waitUntil("all is stored") { worker.settled(.stored) == 60 }
                }
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "messages as long and deep as live ones may be come from the archive; longer and deeper ones don't stop its reading",
            arguments: ServerKind.allCases
        )
        func bounds(_ kind: ServerKind) async throws {
            let options = ServerOptions(stanza: 400_000, archive: true, offlineStore: false)
            try await ServerScenario.run(kind, options) { scenario in
                try await Self.begin(["m1"], scenario)
                func message(_ id: String, depth: Int = 1, data: Int = 0) -> String {
                    let data = String(repeating: "x", count: data)
                    let json = #"{"message_id":"\#(id)","from":"FAKE-token","category":"c","data":"\#(data)"}"#
                    let (open, close) = (
                        String(repeating: "<a>", count: depth), String(repeating: "</a>", count: depth)
                    )
                    return
                        "<message to='\(scenario.device.address)' id='\(id)'><gcm xmlns='google:mobile:data'>\(json)</gcm>"
                        + "<x xmlns='urn:x'>\(open)\(close)</x><store xmlns='urn:xmpp:hints'/></message>"
                }
                let space = "urn:" + String(repeating: "n", count: 20_000)
                // Each element gets the name of its namespace: megabytes, which is a stranger's as well.
                let longest =
                    "<message to='\(scenario.device.address)'><body>x</body><x xmlns='urn:x' xmlns:p='\(space)'>"
                    + String(repeating: "<p:b/>", count: 150) + "</x></message>"
                let deeper = (0..<25).map { message("deeper\($0)", depth: 63) }
                // 64 elements inside each other, and 256 KiB.
                for stanza in [message("long", data: 261_000), message("longer", data: 300_000), longest]
                    + [message("deep", depth: 62)] + deeper + [message("last")]
                {
                    try scenario.device.send(stanza: stanza)
                }
                // Nobody has this address: once it is returned, the server has taken all before it.
                try scenario.device.send(
                    stanza: "<message to='nobody@\(StandardServer.domain)' id='marker'><body>x</body></message>"
                )
                try await waitUntil("the server has taken them") { scenario.device.errors.contains("marker") }
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try await scenario.waitForAcks(["deep", "last", "long"])
                    try await Self.waitUntilRead(worker)
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                    #expect(!worker.logs.lines.contains { $0.contains("archive.failed") })
                }
                try await scenario.expectStored(["deep", "last", "long", "m1"])
            }
        }

        @Test("900 messages stored offline against a queue of 300 come from the store; the archive has them once more")
        func offlineFlood() async throws {
            try await ServerScenario.run(.ejabberd, ServerOptions(queue: 300, archive: true)) { scenario in
                let ids = ServerScenario.ids(1...905)
                try await Self.begin(Array(ids[..<5]), scenario)
                try Self.send(ids[5...], scenario)
                try await waitUntil("the server has stored them") {
                    try await scenario.server.offlineMessages(scenario.account) == 900
                }
                try await scenario.withWorker(Self.yaml(scenario), waits: false) { worker in
                    try await scenario.waitForAcks(ids, limit: .seconds(300))
                    try await waitUntil("the archive is read", limit: .seconds(200)) { Self.readings(worker) == [900] }
                    #expect(worker.settled(.stored) == 900 && worker.settled(.duplicate) == 900)
                }
                try await scenario.expectStored(ids)
                #expect(scenario.device.errors.isEmpty && scenario.device.acks.count == ids.count)
            }
        }

        @Test("the place in the archive waits for the commit, and a page whose worker is killed before is read again")
        func killed() async throws {
            try await ServerScenario.run(.prosody, ServerOptions(archive: true, offlineStore: false)) { scenario in
                let ids = ServerScenario.ids(1...45)
                try await Self.begin(Array(ids[..<5]), scenario)
                let before = try await Self.point(scenario)
                try Self.send(ids[5...], scenario)
                try await scenario.database.withLockedLedger {
                    let worker = try await scenario.startWorker(Self.yaml(scenario))
                    try await waitUntil("the page is in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 5
                    }
                    #expect(try await Self.point(scenario) == before)
                    worker.send(SIGKILL)
                    _ = try await worker.exitCode()
                    try await scenario.database.endWaitingSessions()
                }
                try await scenario.database.waitUntilAbandoned()
                #expect(try await Self.point(scenario) == before)
                try await scenario.database.script("UPDATE upstream.archive_points SET leased_until = NULL")
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try await Self.waitUntilRead(worker)
                    #expect(worker.settled(.stored) == 40)
                }
                #expect(try await Self.point(scenario) != before)
                try await scenario.expectStored(ids)
            }
        }

        @Test(
            "results that a stranger or a device sends are no messages; an archive without our place is read from its time",
            arguments: ServerKind.allCases
        )
        func forged(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ServerOptions(archive: true)) { scenario in
                try await Self.begin(["m1"], scenario)
                try await scenario.database.script(
                    "UPDATE upstream.archive_points SET archive_id = NULL, archived_at = archived_at - interval '1 hour'"
                )
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    for query in ["", "1", "x-archive-1"] {
                        try scenario.device.send(
                            content: "<result xmlns='urn:xmpp:mam:2' queryid='\(query)' id='1'><forwarded "
                                + "xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='devices@ccs.test'><gcm "
                                + "xmlns='google:mobile:data'>{\"message_id\":\"forged\",\"from\":\"t\",\"category\":\"c\"}"
                                + "</gcm></message></forwarded></result>"
                        )
                    }
                    try Self.send(["m2"], scenario)
                    try await Self.waitUntilRead(worker)
                    // The forged ones have a body, and are in the archive themselves: with nothing that is a message.
                    #expect(Self.readings(worker) == [5] && worker.metrics.stanzas[.archive].value == 5)
                    #expect(worker.settled(.duplicate) == 2)
                }
                try await scenario.expectStored(["m1", "m2"])
                #expect(scenario.device.acks == ["m1", "m2"])
                // As after a purge, or of another server: Prosody says so, ejabberd finds nothing behind an id that is
                // longer than its own.
                let unknown = UUID().uuidString
                try await scenario.database.script("UPDATE upstream.archive_points SET archive_id = '\(unknown)'")
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try await Self.waitUntilRead(worker)
                    #expect(worker.logs.lines.contains { $0.contains("archive.purged") })
                    #expect(Self.readings(worker)[0] > 0)
                }
                #expect(try await Self.point(scenario) != unknown)
            }
        }

        @Test("two workers that read from one place at once store nothing twice, and the place never goes back")
        func twoReaders() async throws {
            try await ServerScenario.run(.prosody, ServerOptions(archive: true, offlineStore: false)) { scenario in
                let ids = ServerScenario.ids(1...605)
                try await Self.begin(Array(ids[..<5]), scenario)
                try Self.send(ids[5...], scenario)
                // Nobody has this address: once it is returned, the server has taken all before it.
                try scenario.device.send(
                    stanza: "<message to='nobody@\(StandardServer.domain)' id='marker'><body>x</body></message>"
                )
                try await waitUntil("the server has taken them") { scenario.device.errors.contains("marker") }
                try await scenario.database.script(
                    """
                    CREATE TABLE public.steps (is_back boolean);
                    CREATE FUNCTION public.note_step() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
                        INSERT INTO public.steps VALUES (NEW.archived_at < OLD.archived_at);
                        RETURN NULL;
                    END $$;
                    CREATE TRIGGER note_step AFTER UPDATE OF archived_at ON upstream.archive_points
                        FOR EACH ROW EXECUTE FUNCTION public.note_step()
                    """
                )
                let second = try Self.yaml(scenario).replacing("resource: upstream-worker", with: "resource: other")
                try await scenario.withWorker(Self.yaml(scenario)) { first in
                    try await scenario.withWorker(second) { second in
                        try await scenario.database.withLockedLedger {
                            try await waitUntil("both have the same page in flight", limit: .seconds(200)) {
                                // As if the one that reads were frozen.
                                try await scenario.database.script(
                                    "UPDATE upstream.archive_points SET leased_until = now() - interval '1 second' "
                                        + "WHERE leased_until > now()"
                                )
                                return first.inFlight == second.inFlight && first.inFlight >= 5
                            }
                        }
                        try await waitUntil("all is stored", limit: .seconds(90)) {
                            first.settled(.stored) + second.settled(.stored) == 600
                        }
                        try await waitUntil("one has read to the end") {
                            Self.readings(first) + Self.readings(second) == [600]
                        }
                        #expect(first.settled(.duplicate) + second.settled(.duplicate) >= 5)
                        try await scenario.waitForAcks(ids)
                    }
                }
                try await scenario.expectStored(ids)
                #expect(try await scenario.database.integer("SELECT count(*) FROM public.steps WHERE is_back") == 0)
                #expect(try await scenario.database.integer("SELECT count(*) FROM public.steps") >= 6)
                #expect(scenario.device.acks.sorted() == ids.sorted())
            }
        }

        @Test(
            "audit finds in the archive what the database lacks, and takes nothing from the worker",
            arguments: ServerKind.allCases
        )
        func audited(_ kind: ServerKind) async throws {
            try await ServerScenario.run(kind, ServerOptions(archive: true)) { scenario in
                let ids = ServerScenario.ids(1...230)
                func audit(
                    _ arguments: [String] = ["--since", "1d"],
                    scope: String = "sender"
                ) throws -> (status: Int32, known: [String: Any]) {
                    let key = "    dialect: xmpp\n"
                    let yaml = try Self.yaml(scenario).replacing(key, with: key + "    id_scope: \(scope)\n")
                    let path = try scenario.server.scratch.write(yaml.utf8, as: "audit.yaml")
                    // Within the last minute a message may be under way.
                    let run = try CommandRun(["audit", "--json", "--against-archive", "--config", path] + arguments)
                    let checks = try run.object()["checks"] as? [[String: Any]] ?? []
                    let known = checks.first { $0["check"] as? String == "archived-is-known" }
                    return (run.status, try #require(known, "\(run.errors)"))
                }
                try await scenario.withWorker(Self.yaml(scenario)) { worker in
                    try Self.send(ids, scenario)
                    // A stranger's is no message.
                    try scenario.device.send(
                        stanza: "<message to='\(scenario.device.address)'><body>x</body></message>"
                    )
                    try await scenario.waitForAcks(ids)
                    try await waitUntil("the archive's messages are over a minute old", limit: .seconds(120)) {
                        try audit().known["looked"] as? Int == ids.count
                    }
                    let sound = try audit()
                    #expect(sound.status == 0 && sound.known["wrong"] as? Int == 0, "\(sound)")
                    // They were stored under the scope that the sender had then.
                    let rescoped = try audit(scope: "device")
                    #expect(rescoped.status == 0 && rescoped.known["looked"] as? Int == ids.count, "\(rescoped)")
                    let path = try scenario.server.scratch.write(Self.yaml(scenario).utf8, as: "bar.yaml")
                    let shown = try CommandRun(onTerminal: [
                        "audit", "--against-archive", "--since", "1d", "--config", path,
                    ])
                    #expect(shown.output.contains("\(scenario.account)'s archive  ["), "\(shown.output)")
                    try await scenario.database.script(
                        """
                        DELETE FROM upstream.message_ids WHERE message_key = (
                            SELECT message_key FROM upstream.messages WHERE message_id = 'm7');
                        DELETE FROM upstream.messages WHERE message_id = 'm7'
                        """
                    )
                    let wrong = try audit()
                    #expect(wrong.status == 1 && wrong.known["wrong"] as? Int == 1, "\(wrong)")
                    #expect(wrong.known["examples"] as? [String] == ["\(scenario.account) m7"])
                    // It came before the worker first asked the archive, which is nobody's loss.
                    try await Self.waitUntilRead(worker)
                    let begun = try audit([])
                    #expect(begun.status == 0 && begun.known["wrong"] as? Int == 0, "\(begun)")
                    try Self.send(["last"], scenario)
                    try await scenario.waitForAcks(["last"])
                    #expect(ReconnectReason.allCases.allSatisfy { worker.metrics.reconnects[$0].value == 0 })
                }
                #expect(scenario.device.errors.isEmpty)
            }
        }
    }
}
