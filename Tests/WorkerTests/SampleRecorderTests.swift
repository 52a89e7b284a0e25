import MessageStore
import Telemetry
import Testing
import Vocabulary

@testable import Dispatcher
@testable import Worker

@Suite("a worker's samples")
struct SampleRecorderTests {
    private let metrics = Metrics(senders: ["1"], categories: [], handlers: ["orders", "other"], version: "1.2.3")
    private let minute = Sample.minute

    private func activity(_ circuit: CircuitState = .closed) -> [HandlerActivity] {
        [HandlerActivity(handler: "orders", circuit: circuit, nextProbe: nil, isPaused: false, running: 0, waiting: 0)]
    }

    private func receive(_ count: Int) {
        metrics.messages.received(upstream: count)
        metrics.received(sender: 0).increment(by: count)
        metrics.handler(0).deliveries[.done].increment(by: count)
        metrics.handler(0).duration.observe(0.004, count: count)
    }

    @Test("a worker's row has a handler's failures in a row as they were counted, not as the table counts attempts")
    func failedInRow() {
        let identity = WorkerReport(instance: Digest128(high: 0, low: 1), worker: "host:1", version: "1", roles: [])
        var figures = WorkerFigures(of: identity, metrics, now: .now)
        var activity = activity(.open)
        activity[0].failedInRow = 20
        let row = figures.next(activity: activity, isStopping: false, now: .now)
        #expect(row.handlers.map(\.failedInRow) == [20])
    }

    @Test("a minute's counts are in one sample of each subject, whatever was written or not; none is counted twice")
    func countsOnce() {
        receive(7)
        var recorder = SampleRecorder(metrics, receives: true, now: 10 * minute + 5)
        receive(3)
        recorder.look(activity(), now: 10 * minute + 50)
        #expect(recorder.pending.isEmpty, "the minute is not over")
        recorder.look(activity(), now: 11 * minute)
        let first = recorder.pending
        #expect(first.map(\.kind) == [.store, .sender, .handler] && first.map(\.subject) == ["", "1", "orders"])
        #expect(first.map(\.received) == [3, 3, nil] && first.map(\.handled) == [3, nil, 3])
        #expect(first[0].started == "1.2.3" && first[2].times?.reduce(0, +) == 3)
        // The database took none: they wait as they are.
        receive(5)
        recorder.look(activity(), now: 12 * minute)
        #expect(Array(recorder.pending.prefix(3)) == first)
        #expect(recorder.pending.compactMap(\.handled).reduce(0, +) == 2 * 8, "of the store and of the handler")
        recorder.written()
        recorder.look(activity(), now: 13 * minute)
        #expect(recorder.pending.map(\.handled) == [0, nil, 0] && recorder.pending.allSatisfy { $0.times == nil })
        recorder.written()
        receive(1)
        recorder.look(activity(), now: 13 * minute + 9, isEnd: true)
        #expect(recorder.pending.map(\.handled) == [1, nil, 1], "the last minute, at the end")
    }

    @Test("what was held at one heartbeat of a minute is held in its sample, and not in the next")
    func held() {
        var recorder = SampleRecorder(metrics, receives: true, now: 0)
        metrics.connections(sender: 0, state: .bound).set(1)
        recorder.look(activity(.open), now: 5)
        recorder.look(activity(), now: minute)
        #expect(recorder.pending.map(\.held) == [false, false, true])
        recorder.written()
        metrics.connections(sender: 0, state: .bound).set(0)
        metrics.commitsWaitingForStandby.set(1)
        recorder.look(activity(), now: 2 * minute)
        #expect(recorder.pending.map(\.held) == [true, true, false])
    }

    @Test("while the database takes none the latest hour waits")
    func bounded() {
        var recorder = SampleRecorder(metrics, receives: false, now: 0)
        for number in 1...100 { recorder.look([], now: Int64(number) * minute) }
        #expect(recorder.pending.count == 60 && recorder.pending.allSatisfy { $0.kind == .store && $0.started == nil })
    }
}
