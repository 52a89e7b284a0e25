import CCSEmulator
import Diagnosis
import Foundation
import IntegrationSupport
import Postgres
import Testing

extension Integration {
    /// The proof of conservation against what the peer saw acked.
    @Suite struct ConservationFileTests {
        @Test(
            "audit finds every message that the emulator saw acked, odd ones too, and names one that is gone (G1, G4)",
            arguments: ["sender", "device"]
        )
        func acked(_ scope: String) async throws {
            let count = 500
            let folder = try TemporaryFolder()
            let path = folder.url.appending(path: "acks.ndjson").path
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.acks = path
                $0.faults = try FaultScript(parsing: "every 9: odd-json; every 20: redeliver; every 25: conflict")
            } _: { stage in
                var options = WorkerOptions()
                options.idScope = scope
                try await stage.withWorker(options) { _ in try await stage.waitUntilComplete() }
                let tally = await stage.emulator.stop()
                let connection = try await PostgresConnection.open(PostgresSettings(url: stage.database.url))
                let conservation = Conservation(connection)
                var report = try await conservation.run()
                try await conservation.compare(with: try AckedFile(path), &report)
                #expect(report.isSound && report.remarks.isEmpty, "\(report)")
                let acked = try #require(report.result(.ackedIsKnown)).looked
                #expect(acked >= count && Int(acked) <= tally.ackedCopies)
                #expect(report.ledger.rows == report.ledger.bodies && report.ledger.rows >= count)
                let id = try #require(
                    try await stage.database.texts("SELECT message_id FROM upstream.messages LIMIT 1").first
                )
                try await stage.database.script(
                    """
                    DELETE FROM upstream.message_ids WHERE message_key = (
                        SELECT message_key FROM upstream.messages WHERE message_id = '\(id)');
                    DELETE FROM upstream.messages WHERE message_id = '\(id)'
                    """
                )
                var after = try await conservation.run()
                #expect(after.isSound, "both gone: the tables alone can't tell")
                try await conservation.compare(with: try AckedFile(path), &after)
                #expect(after.result(.ackedIsKnown)?.examples.first?.hasSuffix(" \(id)") == true, "\(after)")
                await connection.close()
            }
        }
    }
}
