import Dispatcher
package import Ingest
package import Postgres

/// Wakes the workers that listen for deliveries, after commits that left some for them.
///
/// It has a session of its own, so that no batch waits for it. A notification stands for all handlers, and for all that
/// was committed since the last. If it is lost, the next poll finds the deliveries.
package final class DeliveryBell: Sendable {
    /// The channel on which workers listen.
    package static let channel = "upstream_deliveries"
    /// The least time between two notifications.
    private static let pause = Duration.milliseconds(20)

    private let signal = DispatchSignal()
    private let client: PostgresClient
    private let status: CommitStatus?

    /// A bell that connects on first use; `status` logs its failures.
    package init(_ settings: PostgresSettings, status: CommitStatus? = nil) {
        client = PostgresClient(settings)
        self.status = status
    }

    /// Asks for a notification, after the commit.
    func ring() { signal.set() }

    /// Ends ``run()``, after a last notification if one is due.
    package func finish() { signal.finish() }

    /// Notifies whenever ``ring()`` asks for it, until ``finish()``, or until the task is cancelled.
    package func run() async {
        while await signal.wait() {
            do throws(PostgresError) {
                try await client.run { connection throws(PostgresError) in try connection.notify(Self.channel) }
            } catch {
                // Of an outage others tell.
                if !error.endsSession, !Task.isCancelled { status?.notifyingFailed(error.message) }
            }
            try? await Task.sleep(for: Self.pause)
        }
        await client.close()
    }
}
