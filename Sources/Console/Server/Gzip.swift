import HTTPTypes
import Hummingbird

/// The gzip format (RFC 1952), with fixed Huffman codes (RFC 1951, section 3.2.6).
///
/// Pages' rows repeat each other: they take a fifth of their size. In Swift, since zlib would be one more library for every
/// build.
struct Gzip {
    /// Smaller answers are sent as they are.
    static let least = 8 << 10
    /// How far back a repetition may be, and its lengths.
    private static let (window, lengths) = (1 << 15, 3...258)
    /// The most places that are compared at each byte.
    private static let depth = 16

    private var out: [UInt8] = []
    private var bits: UInt64 = 0
    private var bitCount = 0

    private init() {}

    /// Compresses bytes; a name of `padding` bytes goes before them.
    ///
    /// With a random name the length of an answer does not tell whether what somebody guessed is in it (BREACH).
    static func compress(_ input: [UInt8], padding: Int = .random(in: 0..<256)) -> [UInt8] {
        var gzip = Gzip()
        gzip.out.reserveCapacity(input.count / 4 + padding + 64)
        gzip.out += [0x1F, 0x8B, 8, 8, 0, 0, 0, 0, 0, 255]
        gzip.out += [UInt8](repeating: UInt8(ascii: "x"), count: padding) + [0]
        input.withUnsafeBufferPointer { gzip.deflate($0) }
        for number in [crc(of: input), UInt32(truncatingIfNeeded: input.count)] {
            for shift in [0, 8, 16, 24] { gzip.out.append(UInt8(truncatingIfNeeded: number >> UInt32(shift))) }
        }
        return gzip.out
    }

    /// One block, the last one.
    private mutating func deflate(_ input: UnsafeBufferPointer<UInt8>) {
        put(0b011, 3)
        // The latest place of each hash, and of each place the one before it with the same hash.
        var heads = [Int32](repeating: -1, count: 1 << 13)
        var earlier = [Int32](repeating: -1, count: Self.window)
        var at = 0
        while at < input.count {
            let found = Self.repetition(at, input, heads, earlier)
            let length = found?.length ?? 1
            if let found { put(found) } else { putSymbol(Int(input[at])) }
            for place in at..<max(at, min(at + length, input.count - 2)) {
                let hash = Self.hash(input, place)
                earlier[place & (Self.window - 1)] = heads[hash]
                heads[hash] = Int32(truncatingIfNeeded: place)
            }
            at += length
        }
        putSymbol(256)
        put(0, 7 - (bitCount + 7) % 8)
    }

    private static func hash(_ input: UnsafeBufferPointer<UInt8>, _ place: Int) -> Int {
        let word = UInt32(input[place]) << 16 | UInt32(input[place + 1]) << 8 | UInt32(input[place + 2])
        return Int((word &* 0x9E37_79B1) >> 19)
    }

    /// The longest repetition of what stood before; nil without one.
    private static func repetition(
        _ at: Int,
        _ input: UnsafeBufferPointer<UInt8>,
        _ heads: [Int32],
        _ earlier: [Int32]
    ) -> (length: Int, distance: Int)? {
        let most = min(lengths.upperBound, input.count - at)
        guard most >= lengths.lowerBound else { return nil }
        var best = (length: lengths.lowerBound - 1, distance: 0)
        var place = Int(heads[hash(input, at)])
        for _ in 0..<depth {
            guard place >= 0, at - place <= window - 1 else { break }
            var length = 0
            while length < most, input[place + length] == input[at + length] { length += 1 }
            if length > best.length { best = (length, at - place) }
            guard best.length < most else { break }
            let next = Int(earlier[place & (window - 1)])
            // The ring holds a later place by now.
            guard next < place else { break }
            place = next
        }
        return best.distance > 0 ? best : nil
    }

    // MARK: Codes

    /// The shortest length, or distance, of each code, and the bits that follow the code.
    private typealias Steps = [(base: Int, extra: Int)]
    private static let lengthSteps = steps(from: 3, [(8, 0)] + (1...5).map { (4, $0) }) + [(258, 0)]
    private static let distanceSteps = steps(from: 1, [(4, 0)] + (1...13).map { (2, $0) })

    private static func steps(from start: Int, _ groups: [(count: Int, extra: Int)]) -> Steps {
        var (base, steps): (Int, Steps) = (start, [])
        for (count, extra) in groups {
            for _ in 0..<count {
                steps.append((base, extra))
                base += 1 << extra
            }
        }
        return steps
    }

    private mutating func put(_ found: (length: Int, distance: Int)) {
        let length = Self.lengthSteps.lastIndex { $0.base <= found.length } ?? 0
        putSymbol(257 + length)
        put(UInt64(found.length - Self.lengthSteps[length].base), Self.lengthSteps[length].extra)
        let distance = Self.distanceSteps.lastIndex { $0.base <= found.distance } ?? 0
        putCode(UInt64(distance), 5)
        put(UInt64(found.distance - Self.distanceSteps[distance].base), Self.distanceSteps[distance].extra)
    }

    private mutating func putSymbol(_ symbol: Int) {
        switch symbol {
        case ..<144: putCode(UInt64(0x30 + symbol), 8)
        case ..<256: putCode(UInt64(0x190 + symbol - 144), 9)
        case ..<280: putCode(UInt64(symbol - 256), 7)
        default: putCode(UInt64(0xC0 + symbol - 280), 8)
        }
    }

    /// Codes begin with their highest bit, everything else with its lowest.
    private mutating func putCode(_ code: UInt64, _ count: Int) {
        var (rest, turned): (UInt64, UInt64) = (code, 0)
        for _ in 0..<count {
            turned = turned << 1 | rest & 1
            rest >>= 1
        }
        put(turned, count)
    }

    private mutating func put(_ value: UInt64, _ count: Int) {
        bits |= value << UInt64(bitCount)
        bitCount += count
        while bitCount >= 8 {
            out.append(UInt8(truncatingIfNeeded: bits))
            bits >>= 8
            bitCount -= 8
        }
    }

    // MARK: Checksum

    private static let table: [UInt32] = (0..<256).map { number in
        (0..<8).reduce(UInt32(number)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    private static func crc(of bytes: [UInt8]) -> UInt32 {
        ~bytes.reduce(0xFFFF_FFFF) { crc, byte in table[Int((crc ^ UInt32(byte)) & 0xFF)] ^ (crc >> 8) }
    }
}

extension Request {
    /// Whether a page may be compressed for who asks: a browser of which our own pages, or its user, want it.
    ///
    /// Pages show what devices sent beside what the address holds. Compressed for another site's requests, their lengths would
    /// tell that site what is in them (BREACH): it chooses the address, and may see the traffic.
    var takesGzip: Bool {
        let sites = headers[values: .secFetchSite]
        guard sites == ["same-origin"] || sites == ["none"] else { return false }
        return headers[values: .acceptEncoding].joined(separator: ",").lowercased().split(separator: ",").contains {
            part in
            let words = part.split(separator: ";").map { $0.filter { !$0.isWhitespace } }
            return words.first == "gzip" && !words.dropFirst().contains { $0.wholeMatch(of: /q=0(\.0*)?/) != nil }
        }
    }
}
