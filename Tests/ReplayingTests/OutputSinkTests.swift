import Foundation
import Glibc
import Postgres
import Testing

@testable import Replaying

@Suite("a replay's output, where writing fails", .timeLimit(.minutes(10)))
struct OutputSinkTests {
    /// How large a file may be here while the test says so, far above that of any other test.
    private static let limit = 64 << 20

    /// Bounds the size of this process's files meanwhile, as a full disk or a quota does.
    private func whileFull(_ body: () async throws -> Void) async rethrows {
        signal(SIGXFSZ, SIG_IGN)
        var before = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
        var lowered = rlimit(rlim_cur: rlim_t(Self.limit), rlim_max: before.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &lowered)
        defer { setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before) }
        try await body()
    }

    @Test("what was written in part is not written again behind it once there is room, nor said to be in the file")
    func tornWrite() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(1)
        try await fixture.script("UPDATE upstream.messages SET data = to_json(repeat('x', 400000))")
        try await fixture.plan(fixture.request("r", .other(.output(path: nil, format: .ndjson))))
        let span = SelectionStatements.Span(replay: try await fixture.replay().id, start: 0, limit: 10)
        let items = try await fixture.admin.run { try ReplayItem.read($0, span) }
        #expect(items.count == 1)
        let path = "/tmp/upstream-sink-\(UInt64.random(in: 0...UInt64.max))"
        let partial = path + ".partial"
        defer { unlink(partial) }
        close(open(partial, O_CREAT | O_EXCL | O_WRONLY, 0o600))
        truncate(partial, Self.limit)
        let start = ReplayLease.Position(done: 0, skipped: 0, bytes: Int64(Self.limit) - 100_000)
        let mark = OutputMark(current: FileIdentity(at: partial))
        let sink = try OutputSink(path: path, format: .ndjson, from: start, mark)
        await whileFull {
            await #expect(throws: ReplayError.self) { try await sink.send(items) }
        }
        await #expect(throws: ReplayError.self) { try await sink.position() }
        await sink.close()
        #expect(try FileManager.default.attributesOfItem(atPath: partial)[.size] as? Int == Self.limit)
    }
}
