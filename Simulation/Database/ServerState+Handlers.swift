import Dispatcher
import UpstreamKit
import Vocabulary

// Registrations and subscriptions: `upstream.register_handlers` and its neighbours.
extension ServerState {
    private static let second: Int64 = 1_000_000

    mutating func update(_ handler: String, _ body: (inout HandlerRow) -> Void) {
        guard var row = tables.handlers[handler] else { return }
        body(&row)
        change(.handler(handler, row))
    }

    mutating func register(previous: Int64, token: Int64, worker: String, _ handlers: [HandlerRegistration]) {
        for handler in handlers {
            var row = tables.handlers[handler.name] ?? HandlerRow(seenAt: now)
            row.seenAt = now
            change(.handler(handler.name, row))
        }
        withdrawRegistrations(previous)
        withdrawRegistrations(token)
        for handler in handlers {
            let row = RegistrationRow(
                worker: worker,
                categories: handler.categories.names,
                isByDevice: handler.ordering == .device,
                filter: handler.filter,
                aliveSince: now,
                heartbeatAt: now
            )
            change(.registration(RegistrationKey(token: token, handler: handler.name), row))
        }
        deriveSubscriptions(handlers.map(\.name))
    }

    mutating func withdraw(_ token: Int64) {
        let names = tables.registrations.keys.filter { $0.token == token }.map(\.handler).sorted()
        withdrawRegistrations(token)
        deriveSubscriptions(names)
    }

    private mutating func withdrawRegistrations(_ token: Int64) {
        guard token != 0 else { return }
        for key in tables.registrations.keys where key.token == token { change(.registration(key, nil)) }
    }

    /// The part of a handler's limit over all workers that a process gets: `upstream.take_share`.
    mutating func share(_ request: ShareRequest, of token: Int64) -> Int? {
        guard !isLocked(.handler(request.handler)), tables.handlers[request.handler] != nil else { return nil }
        let key = RegistrationKey(token: token, handler: request.handler)
        let others = tables.registrations.filter { $0.key.handler == key.handler && $0.key != key }.values
            .filter { ($0.shareUntil ?? 0) > now }
        let whole = Double(request.whole)
        let equal = Double(request.whole / (others.count + 1)) / whole
        func free(_ taken: (RegistrationRow) -> Double) -> Int {
            let sum: Double = others.map(taken).reduce(0, +)
            return Int((whole * (1 - sum) + 0.000001).rounded(.down))
        }
        let fair = free { max($0.share, min(equal, $0.shareMost)) }
        let own = min(request.most, max(0, fair, min(request.busy, free(\.share))))
        guard var row = tables.registrations[key] else { return nil }
        (row.share, row.shareMost) = (Double(own) / whole, min(1, Double(request.most) / whole))
        row.shareUntil = now + request.lease.microseconds
        change(.registration(key, row))
        return own
    }

    /// The heartbeat of a process; returns how many handlers it is registered for.
    mutating func keep(_ token: Int64) -> Int {
        _ = unpackExpired()
        let own = tables.registrations.filter { $0.key.token == token }
        var kept: [String] = []
        for (key, var row) in own.sorted(by: { $0.key.handler < $1.key.handler }) {
            guard row.heartbeatAt < now - 30 * Self.second, !isLocked(.registration(key)) else { continue }
            if row.heartbeatAt <= now - 120 * Self.second { row.aliveSince = now }
            row.heartbeatAt = now
            change(.registration(key, row))
            if !isLocked(.handler(key.handler)) { kept.append(key.handler) }
        }
        deriveSubscriptions(kept)
        return own.count
    }

    /// Whether a process is registered for a handler and was heard of within two minutes.
    func runs(_ handler: String, _ token: Int64?) -> Bool {
        guard let token, let row = tables.registrations[RegistrationKey(token: token, handler: handler)] else {
            return false
        }
        return row.heartbeatAt > now - 120 * Self.second
    }

    /// Records that a worker runs these handlers.
    mutating func see(_ handlers: [String]) {
        for name in handlers where !isLocked(.handler(name)) {
            guard let row = tables.handlers[name], row.seenAt < now - 30 * Self.second else { continue }
            var seen = row
            seen.seenAt = now
            change(.handler(name, seen))
        }
    }

    /// Makes the subscriptions of these handlers what their workers ask for; those of a handler that no worker runs stay.
    private mutating func deriveSubscriptions(_ names: [String]) {
        for name in names {
            let heard = now - 120 * Self.second
            let isWitnessed = tables.registrations.contains {
                $0.key.handler == name && $0.value.heartbeatAt > heard && $0.value.aliveSince <= now - 600 * Self.second
            }
            for (key, row) in tables.registrations where key.handler == name && isWitnessed {
                if row.heartbeatAt < now - 600 * Self.second { change(.registration(key, nil)) }
            }
            let rows = tables.registrations.filter { $0.key.handler == name }.values
            if rows.contains(where: { $0.heartbeatAt > heard }) {
                for key in tables.subscriptions.keys where key.handler == name {
                    guard !rows.contains(where: { $0.categories.contains(key.category) }) else { continue }
                    change(.subscription(key, nil))
                }
            }
            let filters = rows.contains { $0.filter == nil } ? nil : Set(rows.compactMap(\.filter))
            let row = SubscriptionRow(isByDevice: rows.contains(where: \.isByDevice), filters: filters)
            for category in Set(rows.flatMap(\.categories)).sorted() {
                let key = SubscriptionKey(handler: name, category: category)
                if tables.subscriptions[key] != row { change(.subscription(key, row)) }
            }
        }
    }

    func backlog(_ handler: String) -> Backlog {
        let rows = tables.queues[handler]?.rows ?? [:]
        let oldest = rows.values.reduce(now) { min($0, $1.receivedAt) }
        let dead = tables.deadLetters.keys.count { $0.handler == handler }
        return Backlog(
            handler: handler,
            depth: min(rows.count, Backlog.depthLimit),
            oldestAge: .microseconds(now - oldest),
            deadLetters: min(dead, Backlog.depthLimit)
        )
    }
}
