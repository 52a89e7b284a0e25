import NIOCore
import NIOPosix
import Probing
import TLSWire
package import UpstreamConfiguration
package import Vocabulary
import XMPP
import XMPPSession

/// Reads what a sender's archive holds, as its worker would, and leaves everything as it is (`audit --against-archive`).
package struct ArchiveReading {
    package struct Message: Sendable {
        /// The ledger's key; nil for what belongs in quarantine.
        package var key: Digest128?
        package var id: String
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

    /// Calls a function with the messages of each page that the archive got at or after `since` and before `until`.
    package func read(
        since: Timestamp?,
        until: Timestamp,
        _ body: ([Message]) async throws -> Void
    ) async throws {
        let (stream, news) = await TrialStream.open(
            try await settings(),
            on: MultiThreadedEventLoopGroup.singleton.next()
        )
        if let end = news.end { throw failure(end.message) }
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
        _ body: ([Message]) async throws -> Void
    ) async throws {
        var walk = first
        while true {
            guard let answer = await stream.ask(walk.request, Self.patience) else {
                throw failure(await stream.news.end?.message ?? "no answer")
            }
            let messages = await stream.takeMessages().map { Message(key: $0.key, id: $0.id) }
            switch walk.answered(answer) {
            case .again: continue
            case .fail(let reason): throw failure("cannot read the archive: \(reason.description)")
            case .save(_, let end):
                try await body(messages)
                if end == .complete { return }
                // Whoever waits for the proof wants all of it.
                if end == .interrupted { walk = ArchiveWalk(walk.request) }
            }
        }
    }

    private func failure(_ reason: String) -> Failure {
        Failure(message: "sender \(sender): \(reason)", status: .unavailable)
    }

    /// Without presence, which would take messages from the worker, and without its resource, which would end its session.
    private func settings() async throws(Failure) -> SenderSettings {
        let sender = configuration.senders[index]
        var settings: SenderSettings
        do throws(TLSError) { settings = try SenderSettings(configuration, index: index) } catch {
            throw Failure(message: "sender \(self.sender): \(error.message)", status: .configuration)
        }
        (settings.stream.purpose, settings.stream.resource, settings.stream.resume) = (.archive, nil, .zero)
        let pin = await ProbeSequence.pin(of: settings, configuration.database.url)
        settings.stream.isBindingPinned = pin != nil && sender.stream.channelBinding == .preferred
        return settings
    }
}
