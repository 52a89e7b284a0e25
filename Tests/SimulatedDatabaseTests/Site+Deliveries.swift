import Dispatcher
import Synchronization
import UpstreamKit
import Vocabulary

extension Site {
    /// The offer of a worker that runs `orders`.
    func offer(
        _ token: Int64,
        _ handlers: [String] = ["orders"],
        packed: [String] = [],
        block: Int64 = 0,
        owner: String = "a"
    ) -> LeaseOffer {
        var offer = LeaseOffer(
            handlers: handlers,
            local: ["orders"],
            owner: owner,
            token: token,
            duration: .seconds(60)
        )
        (offer.packed, offer.block) = (packed, block)
        return offer
    }

    /// Claims, and shows what was given.
    func claim(
        _ store: any DeliveryStore,
        _ owner: String = "a",
        limit: Int = 100,
        isOrdered: Bool = false,
        _ change: (inout ClaimRequest) -> Void = { _ in }
    ) async throws -> ([Delivery], String) {
        var request = ClaimRequest(
            handler: "orders",
            limit: limit,
            lease: .seconds(60),
            owner: owner,
            isOrdered: isOrdered
        )
        change(&request)
        let found = try await store.claim(request)
        let texts = found.map { delivery in
            guard case .stored(let message) = delivery.content else { return "\(delivery.messageKey.low): missing" }
            return "\(delivery.messageKey.low): \(message.messageID) \(message.senderID) \(message.category) "
                + "\(message.registrationToken.rawValue) \(String(decoding: message.data ?? [], as: UTF8.self)) "
                + "\(message.receivedAtMicroseconds - start) \(delivery.attempts) \(delivery.crashes)"
        }
        return (found, "claimed [\(texts.joined(separator: ", "))]")
    }

    /// The next claim finds what others have given up, wherever it is in the table.
    func settled(_ deliveries: [Delivery], _ outcome: Settlement.Outcome, _ end: AttemptOutcome? = nil) -> [Settlement]
    {
        deliveries.map { delivery in
            var settlement = delivery.settled(outcome)
            settlement.attempt = end.map {
                AttemptRecord(
                    outcome: $0,
                    started: .now,
                    took: .milliseconds(3),
                    receivedAt: start + Int64(delivery.messageKey.low)
                )
            }
            return settlement
        }
    }

    /// Stores messages of one category, in the order of their numbers.
    func receive(_ numbers: ClosedRange<UInt64>, devices: UInt64 = 1) async -> String {
        await commit(numbers.map { message($0, device: $0 % devices) }, by: writer())
    }
}

extension Site {
    func outcome(_ body: () async throws(StoreError) -> Void) async -> String {
        do throws(StoreError) {
            try await body()
            return "done"
        } catch {
            return error.text
        }
    }

    /// Each method of the port once, and how it ended.
    func tryEverything(_ store: any DeliveryStore, _ held: [Delivery]) async -> [String] {
        let settlements = settled(held, .release(after: .zero))
        let block = BlockSettlement(number: 1, token: 1, count: 1, done: [.number(1)])
        return [
            await outcome { () async throws(StoreError) in _ = try await store.register([.make("orders")]) },
            await outcome { () async throws(StoreError) in _ = try await store.controls(["orders"]) },
            await outcome { () async throws(StoreError) in
                try await store.hold("orders", HandlerHold(remaining: .seconds(60), reason: "later"))
            },
            await outcome { () async throws(StoreError) in try await store.pause("orders", reason: "asked") },
            await outcome { () async throws(StoreError) in _ = try await store.claim(request) },
            await outcome { () async throws(StoreError) in
                _ = try await store.extend(held.map(\.key), of: "orders", by: .seconds(90))
            },
            await outcome { () async throws(StoreError) in _ = try await store.settle([block], of: "orders") },
            await outcome { () async throws(StoreError) in _ = try await store.settle(settlements, of: "orders") },
            await outcome { () async throws(StoreError) in _ = try await store.unclaimed() },
            await outcome { () async throws(StoreError) in _ = try await store.backlog(["orders"]) },
            await outcome { () async throws(StoreError) in try await store.keep(["orders"]) },
        ]
    }

    private var request: ClaimRequest {
        ClaimRequest(handler: "orders", limit: 9, lease: .seconds(60), owner: "writer")
    }
}

extension AttemptEnd {
    var text: String {
        switch self {
        case .settled: "settled"
        case .lost, .alone: "lost"
        case .verdict(.unavailable): "unavailable"
        case .verdict(.retry): "retry"
        case .verdict(let verdict): "\(verdict)"
        }
    }
}

/// Whether something has come about.
final class Done: Sendable {
    private let state = Mutex(false)
    var isSet: Bool { state.withLock(\.self) }
    func set() { state.withLock { $0 = true } }
}

let failure = HandlerFailure(group: "broken", detail: "it-broke")

extension Delivery {
    var key: LeaseReference { LeaseReference(messageKey: messageKey, token: lease.token) }
}
