import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import Vocabulary

@testable import Dispatcher
@testable import Ingest

/// A connection and a dispatcher in one, which write into one list.
private final class Journal: AckSink, DeliveryIntake {
    enum Entry: Equatable {
        case acked([UInt8])
        case handedOver([UInt8])
    }

    private let list = Mutex<[Entry]>([])

    var entries: [Entry] { list.withLock { $0 } }

    func settled(_ copies: SettledCopies) {
        let tags = copies.messages.map { $0.bytes[0] }
        list.withLock { $0.append(.acked(tags)) }
    }

    func offer(for count: Int, bytes: Int) -> LeaseOffer {
        LeaseOffer(handlers: ["h"], local: ["h"], owner: "me", token: 7, duration: .seconds(600))
    }

    func committed(_ offer: LeaseOffer, messages: [IncomingMessage], outcomes: [StoreOutcome]) {
        list.withLock { $0.append(.handedOver(messages.map { $0.bytes[0] })) }
    }

    func withdrawn(_ offer: LeaseOffer) {}

    func registrationLost(of offer: LeaseOffer) {}
}

@Suite("Acks before handlers", .timeLimit(.minutes(5)))
struct IngestOrderTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var outages = 0
        var refused: Set<UInt8> = []
        var largest = Int.max
        /// Whether it commits in several transactions.
        var isSplit = false
    }

    @Test(
        "What has committed is acked before it is handed over, part by part",
        arguments: [
            Case(testDescription: "a whole batch"),
            Case(testDescription: "after outages", outages: 2),
            Case(testDescription: "in parts after a timeout", largest: 2, isSplit: true),
            Case(testDescription: "in parts after a refusal", refused: [4], isSplit: true),
        ]
    )
    func acksFirst(_ example: Case) async {
        let journal = Journal()
        let queue = IngestQueue()
        queue.submit(messages(1...5), from: journal)
        queue.finish()
        let writer = ScriptedWriter(outages: example.outages, refused: example.refused, largest: example.largest)
        let service = IngestService(
            queue: queue,
            writers: [writer],
            metrics: Metrics(senders: [], categories: [], handlers: [], version: "test"),
            logger: .quiet,
            clock: .manual,
            intake: journal
        )
        await service.run()
        #expect(writer.committed == [1, 2, 3, 4, 5])
        var parts: [[UInt8]] = []
        for case .acked(let tags) in journal.entries { parts.append(tags) }
        #expect((parts.count > 1) == example.isSplit && Array(parts.joined()) == [1, 2, 3, 4, 5])
        #expect(journal.entries == parts.flatMap { [.acked($0), .handedOver($0)] })
    }
}
