import Digests
import Querying
import Vocabulary

/// Names for fingerprints where payloads are hidden; only this process can resolve them.
///
/// A fingerprint is a hash of what a device sent, so it could confirm a guess. Yet conflicts are addressed by
/// fingerprint; each gets another name: its fingerprint under a random permutation of 128 bits (Luby and Rackoff: four
/// rounds of a Feistel network over a keyed function, here HMAC-SHA256).
struct Aliases: Sendable {
    private let key: [UInt8]
    /// Whether names differ from fingerprints at all.
    private let isHiding: Bool

    /// Makes new names for the life of the process.
    init(isHiding: Bool) {
        key = RandomSource.system.bytes(words: 4)
        self.isHiding = isHiding
    }

    func name(of fingerprint: Digest128) -> Digest128 {
        guard isHiding else { return fingerprint }
        var (left, right) = (fingerprint.high, fingerprint.low)
        for round in 0..<4 as Range<UInt8> { (left, right) = (right, left ^ mixed(right, round)) }
        return Digest128(high: left, low: right)
    }

    /// The fingerprint that a name stands for; a name never given maps to an arbitrary one.
    func fingerprint(of name: Digest128) -> Digest128 {
        guard isHiding else { return name }
        var (left, right) = (name.high, name.low)
        for round in (0..<4 as Range<UInt8>).reversed() { (left, right) = (right ^ mixed(left, round), left) }
        return Digest128(high: left, low: right)
    }

    func named(_ row: ConflictRow) -> ConflictRow {
        var row = row
        row.name = name(of: row.fingerprint)
        return row
    }

    private func mixed(_ half: UInt64, _ round: UInt8) -> UInt64 {
        let message = [round] + withUnsafeBytes(of: half.bigEndian) { Array($0) }
        return HashFunction.sha256.code(for: message, key: key).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
