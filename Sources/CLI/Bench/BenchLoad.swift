package import CCSEmulator
import Foundation
import NIOCore
import Vocabulary
import XMLWire
import XMPP

/// The messages that the emulator sends and the limit inserts.
package enum BenchLoad {
    /// The emulator's settings for a load.
    package static func emulator(
        count: Int,
        connections: Int,
        size: Int,
        window: Int,
        sampling: Int?
    ) -> EmulatorConfiguration {
        var configuration = EmulatorConfiguration()
        configuration.load = profile(count: count, connections: connections, size: size)
        configuration.window = window
        configuration.latencySampling = sampling
        return configuration
    }

    /// The same messages as they reach the store, framed and decoded in memory.
    static func messages(count: Int, size: Int) throws -> [IncomingMessage] {
        let emulator = EmulatorConfiguration()
        let address = StanzaAddress(from: emulator.stanzaFrom, to: "\(BenchSite.senderID)@\(emulator.domain)")
        let generator = LoadGenerator(profile: profile(count: count, connections: 1, size: size), address: address)
        var codec = UpstreamCodec(
            StreamSettings(
                senderID: BenchSite.senderID,
                domain: emulator.domain,
                trustedFrom: emulator.stanzaFrom.map { [$0] } ?? []
            )
        )
        let framer = XMLFramer()
        var result: [IncomingMessage] = []
        result.reserveCapacity(count)
        let header = """
            <stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>
            """
        var buffer = ByteBuffer(string: header)
        let start = Int64(Date().timeIntervalSince1970 * 1e6)
        for sequence in 0..<count {
            generator.append(sequence, to: &buffer)
            try buffer.withUnsafeReadableBytes { bytes in
                try framer.feed(bytes) { event in
                    guard case .stanza(let stanza) = event,
                        // No two share a time, as in the worker.
                        case .message(let message) = codec.decode(
                            stanza,
                            receivedAt: start + Int64(result.count),
                            parsedAt: 0
                        )
                    else { return }
                    result.append(message)
                }
            }
            buffer.clear()
        }
        guard result.count == count else { throw CommandFailure(.internalError, "the load could not be decoded") }
        return result
    }

    private static func profile(count: Int, connections: Int, size: Int) -> LoadProfile {
        var profile = LoadProfile(count: count)
        profile.connections = connections
        profile.size = size...size
        profile.idPrefix = "bench"
        profile.idsAreScattered = true
        return profile
    }
}
