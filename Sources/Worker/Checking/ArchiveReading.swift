import MessageStore
import NIOCore
import NIOPosix
import Probing
import TLSWire
import Telemetry
package import UpstreamConfiguration
package import Vocabulary
import XMPP
import XMPPSession

/// Reads what a sender's archive holds, as its worker would, and leaves everything as it is (`audit --against-archive`).
package struct ArchiveReading {
    package struct Message: Sendable {
        /// The ledger's key; nil for what belongs in quarantine.
        package var key: Digest128?
        /// The keys that it would have with other values of `id_scope`, by these.
        package var otherKeys: [String: Digest128]
        package var id: String

        fileprivate init(_ message: TrialNews.Message) {
            (id, key, otherKeys) = (message.id, message.key, [:])
            if let other = message.otherKey { otherKeys[other.scope.rawValue] = other.key }
        }
    }

    package struct Failure: Error {
        package var message: String
        package var status: ExitStatus
    }

    /// How long a page may take.
    private static let patience = TimeAmount.minutes(2)

    private let configuration: WorkerConfiguration
    private let index: Int

    /// A reading for each sender that catches up from its archive.
    package static func all(_ configuration: WorkerConfiguration) -> [ArchiveReading] {
        configuration.senders.indices.filter { configuration.senders[$0].catchUp == .on }
            .map { ArchiveReading(configuration: configuration, index: $0) }
    }

    package var sender: String { configuration.senders[index].senderID }

    /// The archive's address.
    package var archive: String { configuration.senders[index].stream.address }

    /// Calls a function with the messages of each page that the archive got at or after `since` and before `until`, and
    /// with the time up to which that is.
    package func read(
        since: Timestamp?,
        until: Timestamp,
        _ body: ([Message], Timestamp?) async throws -> Void
    ) async throws {
        let (stream, news) = await TrialStream.open(
            try await settings(),
            on: MultiThreadedEventLoopGroup.singleton.next()
        )
        if let end = news.end {
            throw failure(end.message, end.reason == .authenticationFailed ? .refused : .unavailable)
        }
        do {
            try await walk(stream, ArchiveWalk(.after(ArchivePoint(time: since), until: until)), body)
        } catch {
            await stream.close()
            throw error
        }
        await stream.close()
    }

    private func walk(
        _ stream: TrialStream,
        _ first: ArchiveWalk,
        _ body: ([Message], Timestamp?) async throws -> Void
    ) async throws {
        var walk = first
        while true {
            guard let answer = await stream.ask(walk.request, Self.patience) else {
                throw failure(await stream.news.end?.message ?? "no answer")
            }
            let messages = await stream.takeMessages().map(Message.init)
            switch walk.answered(answer) {
            case .again, .check: continue
            case .fail(let reason): throw failure("cannot read the archive: \(reason.description)")
            case .save(let point, let end):
                try await body(messages, point.time)
                if end == .complete { return }
                // Whoever waits for the proof wants all of it.
                if end == .interrupted { walk = ArchiveWalk(walk.request) }
            }
        }
    }

    private func failure(_ reason: String, _ status: ExitStatus = .unavailable) -> Failure {
        Failure(message: "sender \(sender): \(reason)", status: status)
    }

    private func settings() async throws(Failure) -> SenderSettings {
        let sender = configuration.senders[index]
        var settings: SenderSettings
        do throws(TLSError) { settings = try SenderSettings(configuration, index: index).ofArchive } catch {
            throw Failure(message: "sender \(self.sender): \(error.message)", status: .configuration)
        }
        let pin: PinnedBinding?
        do { pin = try await ProbeSequence.pin(of: settings, configuration.database.url) } catch {
            // Without it a worker's sign-in could be undercut.
            throw failure("cannot read whether it must sign in with channel binding: \(error)")
        }
        settings.stream.isBindingPinned = pin != nil && sender.stream.channelBinding == .preferred
        return settings
    }
}
