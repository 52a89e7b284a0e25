import Vocabulary

/// A hash table of the devices in one batch under way, refilled in the same memory for each batch.
///
/// A key is a digest, so 64 of its bits serve as hash and value. A collision holds a message back needlessly, but
/// breaks no order.
struct DevicePins {
    /// Open addressing; 0 marks an empty slot.
    private var slots: [UInt64] = []
    private var mask = 0

    /// Pins exactly the devices of these messages.
    mutating func pin(_ messages: [IncomingMessage]) {
        // At most half full, so that probing ends soon.
        var size = 16
        while size < messages.count * 2 { size *= 2 }
        if slots.count < size {
            slots = Array(repeating: 0, count: size)
        } else {
            for slot in 0..<size { slots[slot] = 0 }
        }
        mask = size - 1
        let messages = messages.span
        for index in messages.indices {
            guard let key = Self.key(messages[index].deviceKey) else { continue }
            var slot = Int(truncatingIfNeeded: key) & mask
            while slots[slot] != 0, slots[slot] != key { slot = (slot + 1) & mask }
            slots[slot] = key
        }
    }

    mutating func clear() { mask = 0 }

    func holds(_ device: Digest128) -> Bool {
        guard mask != 0, let key = Self.key(device) else { return false }
        var slot = Int(truncatingIfNeeded: key) & mask
        while slots[slot] != 0 {
            if slots[slot] == key { return true }
            slot = (slot + 1) & mask
        }
        return false
    }

    /// The slot value of a device; nil for a copy without one, which goes to quarantine, where there is no order.
    private static func key(_ device: Digest128) -> UInt64? {
        guard device.high != 0 || device.low != 0 else { return nil }
        return device.low == 0 ? 1 : device.low
    }
}
