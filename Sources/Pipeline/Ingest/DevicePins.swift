import UpstreamKit
import Vocabulary

/// The devices of one batch under way: a hash table over their keys, made again for each batch in the same memory.
///
/// A key is a digest, so 64 of its bits are place and value at once. Two devices that share them are taken for one, which
/// holds a message back without need and breaks no order.
struct DevicePins {
    /// Open addressing; 0 is an empty place.
    private var places: [UInt64] = []
    private var mask = 0

    /// Whether no device is pinned.
    var isEmpty: Bool { mask == 0 }

    /// Pins the devices of these messages, and no others.
    mutating func pin(_ messages: [IncomingMessage]) {
        // At most half full, so that a look ends soon.
        var size = 16
        while size < messages.count * 2 { size *= 2 }
        if places.count < size {
            places = Array(repeating: 0, count: size)
        } else {
            for place in 0..<size { places[place] = 0 }
        }
        mask = size - 1
        let messages = messages.span
        for index in messages.indices {
            guard let key = Self.key(messages[index]) else { continue }
            var place = Int(truncatingIfNeeded: key) & mask
            while places[place] != 0, places[place] != key { place = (place + 1) & mask }
            places[place] = key
        }
    }

    /// Unpins all.
    mutating func clear() { mask = 0 }

    /// Whether the message's device is pinned.
    func holds(_ message: borrowing IncomingMessage) -> Bool {
        guard mask != 0, let key = Self.key(message) else { return false }
        var place = Int(truncatingIfNeeded: key) & mask
        while places[place] != 0 {
            if places[place] == key { return true }
            place = (place + 1) & mask
        }
        return false
    }

    /// nil for a copy that names no device: it goes to quarantine, where there is no order to keep.
    private static func key(_ message: borrowing IncomingMessage) -> UInt64? {
        let device = message.deviceKey
        guard device.high != 0 || device.low != 0 else { return nil }
        return device.low == 0 ? 1 : device.low
    }
}
