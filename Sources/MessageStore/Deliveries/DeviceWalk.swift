import Dispatcher
import UpstreamKit
import Vocabulary

/// Decides where claims of an ordered handler look: at devices whose oldest delivery may be claimable.
///
/// A device is examined when one of its deliveries becomes due (the walk passes it), when this worker has settled its
/// previous delivery, and with the pieces of the whole table. So devices that only wait cost nothing.
///
/// Devices for which a live delivery waits go before those that have replayed ones alone. Within a device order holds:
/// what was received before the live one goes before it, replayed or not, and as if it were live.
struct DeviceWalk: Sendable {
    /// The walk over due live deliveries.
    var due = ClaimWalk()
    /// The walk over due replayed deliveries.
    private(set) var replayed = ClaimWalk()
    /// The walk over deliveries stored before the handler was ordered.
    var old = ClaimWalk()
    private var ahead = DeviceQueue()
    private var behind = DeviceQueue()
    /// The devices for which the walk has found a live delivery that was not claimed yet.
    private var live: Set<Digest128> = []
    /// Those of them whose older replayed delivery is in hand here.
    private var urgent: Set<Digest128> = []

    /// Whether another search may find devices that go before the remembered ones.
    var wantsLive: Bool { ahead.isEmpty }

    /// Whether a search for replayed deliveries is worth it.
    var wantsReplayed: Bool { behind.isEmpty }

    /// Whether all devices with replayed deliveries have been found and examined.
    var isReplayExamined: Bool { behind.isEmpty && replayed.isIdle }

    /// Records a search of due deliveries for `request`; returns whether it has found all.
    mutating func found(_ devices: ClaimResult<DueDevice>, for request: ClaimRequest) -> Bool {
        let count = devices.values.count(where: \.isReplayed)
        let isFull = devices.values.count - count >= request.limit
        let wanted = min(request.replayed, max(request.limit - (devices.values.count - count), request.owed))
        let isReplayedFull = count >= wanted && wanted > 0
        due.claimed(upTo: devices.last.live, isFull: isFull, devices.surroundings)
        old.isIdle = due.isIdle
        old.entries = due.entries
        if wanted > 0 {
            replayed.claimed(upTo: devices.last.replayed, isFull: isReplayedFull, devices.surroundings)
        }
        for found in devices.values where !found.isReplayed && live.count < DeviceQueue.limit {
            live.insert(found.device)
        }
        add(devices.values)
        return devices.surroundings.isPaused || (!isFull && !isReplayedFull)
    }

    /// Adds the devices of deliveries that have been settled.
    mutating func settled(_ devices: [DueDevice]) {
        for settled in devices { urgent.remove(settled.device) }
        add(devices)
    }

    /// Adds the devices of deliveries that are due, or have been settled.
    mutating func add(_ devices: [DueDevice]) {
        for found in devices { add([found.device], isLive: !found.isReplayed) }
    }

    /// Adds devices to examine; `isLive` if a live delivery is, or was, the reason.
    mutating func add(_ devices: some Sequence<Digest128>, isLive: Bool) {
        for device in devices {
            if isLive || live.contains(device) { ahead.add(device) } else { behind.add(device) }
        }
    }

    /// Takes the next devices to examine for a claim, each once: those with replayed deliveries alone after the others,
    /// except for their turns.
    mutating func take(for request: ClaimRequest) -> (devices: [Digest128], areAhead: Bool) {
        let turns = min(request.limit, request.owed, request.replayed)
        if turns > 0, !behind.isEmpty { return (behind.take(turns), false) }
        guard ahead.isEmpty else { return (ahead.take(request.limit), true) }
        return (behind.take(min(request.limit, request.replayed)), false)
    }

    /// Records what was claimed, of examined devices if they are given; replayed deliveries that live ones of their
    /// devices wait for become urgent.
    ///
    /// Where nothing was claimed another worker has the live delivery, or what it waits for.
    mutating func claimed(_ deliveries: [Delivery], of examined: [Digest128] = []) -> [Delivery] {
        guard !live.isEmpty else { return deliveries }
        var found: Set<Digest128> = []
        let claimed = deliveries.map { delivery in
            guard case .stored(let message) = delivery.content else { return delivery }
            let device = message.deviceKey.digest
            found.insert(device)
            guard live.contains(device) else { return delivery }
            var delivery = delivery
            if delivery.replayID != nil {
                delivery.isUrgent = true
                urgent.insert(device)
            } else {
                live.remove(device)
                urgent.remove(device)
            }
            return delivery
        }
        for device in examined where !found.contains(device) && !urgent.contains(device) { live.remove(device) }
        return claimed
    }
}

/// Devices to examine, each once, in the order in which they were named.
struct DeviceQueue: Sendable {
    /// The most remembered devices; the walk over the whole table finds the others.
    static let limit = 100_000

    private var queue: [Digest128] = []
    private var first = 0
    private var waiting: Set<Digest128> = []

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ device: Digest128) {
        guard waiting.count < Self.limit, waiting.insert(device).inserted else { return }
        queue.append(device)
    }

    mutating func take(_ count: Int) -> [Digest128] {
        let end = min(queue.count, first + count)
        let devices = Array(queue[first..<end])
        waiting.subtract(devices)
        first = end
        if first == queue.count || first > 4_096 {
            queue.removeFirst(first)
            first = 0
        }
        return devices
    }
}
