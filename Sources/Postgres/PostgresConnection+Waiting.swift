import CLibPQ
import Glibc
import Vocabulary

extension PostgresConnection {
    /// Hands a command to libpq; `send` returns 0 on failure.
    func submit(_ connection: ConnectionHandle, _ send: () -> Int32) throws(PostgresError) {
        guard !Task.isCancelled else {
            throw PostgresError.cancelled("before the statement was sent")
        }
        connection.notices.reset()
        guard send() == 1 else { throw lost(connection) }
    }

    /// Gives the session up, and returns its last failure.
    private func lost(_ connection: ConnectionHandle) -> PostgresError {
        defer { close() }
        return PostgresError(.connection, connection.errorMessage)
    }

    /// Waits for the command to end and returns its last result; the first failure wins.
    ///
    /// A committed success becomes an unknown outcome if we had asked to cancel, or if the server warns that the wait
    /// for a standby was broken off. Other warnings are passed on.
    func finish(_ connection: ConnectionHandle) throws(PostgresError) -> PostgresResult {
        var last: PostgresResult?
        var failure: PostgresError?
        let probes =
            settings.isWriter
            ? StatementDeadline.Probes(after: Int64(settings.probeAfter), limit: Int64(settings.probeLimit)) : nil
        let limit = statementLimit ?? settings.statementTimeout
        let begun = monotonicMilliseconds()
        var deadline = StatementDeadline(limit, grace: settings.cancelGrace, probes: probes)
        var probe: BackendProbe?
        func wait(forWriting: Bool) throws(PostgresError) {
            try self.wait(connection, forWriting: forWriting, &deadline, &probe)
        }
        while let result = try connection.nextResult(wait) {
            if let error = result.error, failure == nil { failure = error }
            last = result
        }
        if failure?.failureClass == .timeout, !Task.isCancelled, monotonicMilliseconds() - begun >= Int64(limit) {
            failure?.isTimeLimit = true
        }
        if deadline.hasCancelled, !areCancelsDealtWith {
            close()
            throw failure ?? PostgresError(.deadline, "the server does not deal with a request to cancel")
        }
        if connection.isBad {
            let loss = lost(connection)
            throw failure ?? loss
        }
        if let failure { throw failure }
        if let warning = connection.notices.warning { onWarning?(warning) }
        if !isInTransaction {
            if deadline.hasCancelled {
                var error = PostgresError.unknownOutcome(
                    .deadline,
                    "the statement was cancelled, and may have committed"
                )
                error.isTimeLimit = !Task.isCancelled
                throw error
            }
            if connection.notices.hasUnconfirmedCommit {
                throw .unknownOutcome(
                    .connection,
                    "the server warns that the commit may not have reached a standby"
                )
            }
        }
        guard let last else { throw PostgresError(.connection, "the server gave no result") }
        return last
    }

    /// Waits until the server sends something; throws when the task is cancelled.
    func waitForInput(_ connection: ConnectionHandle, milliseconds: Int32) throws(PostgresError) {
        if !Task.isCancelled { pollOnce(connection, forWriting: false, milliseconds) }
        guard !Task.isCancelled else { throw PostgresError.cancelled("while waiting") }
    }

    /// Waits until the socket is ready, the task is cancelled, a probe has ended, or the deadline has passed.
    private func wait(
        _ connection: ConnectionHandle,
        forWriting: Bool,
        _ deadline: inout StatementDeadline,
        _ probe: inout BackendProbe?
    ) throws(PostgresError) {
        var step = deadline.next(isCancelled: Task.isCancelled)
        if step == .wait, let finding = probe?.result {
            probe = nil
            let waitedBefore = deadline.waitsForStandby
            step = deadline.found(finding, isUnsent: forWriting || connection.isUnsent)
            if deadline.waitsForStandby, !waitedBefore { onStandbyWait?() }
        }
        switch step {
        case .wait: break
        case .probe: probe = BackendProbe(settings, connection, mark, waker)
        case .cancel: cancelHandle?.requestCancel()
        case .giveUp:
            close()
            var error = PostgresError.unknownOutcome(
                .deadline,
                deadline.hasCancelled
                    ? "the server answers neither the statement nor its cancellation"
                    : "the server does not answer, and nobody there works on the statement"
            )
            // Idle: the answer was lost, or the statement is too large for something on the way to the server.
            error.isTimeLimit = (deadline.isLate || deadline.idle > 0) && !Task.isCancelled
            throw error
        }
        pollOnce(connection, forWriting: forWriting, deadline.milliseconds)
    }

    private func pollOnce(_ connection: ConnectionHandle, forWriting: Bool, _ milliseconds: Int32) {
        let events = Int16(POLLIN) | (forWriting ? Int16(POLLOUT) : 0)
        withUnsafeTemporaryAllocation(of: pollfd.self, capacity: 2) { descriptors in
            descriptors[0] = pollfd(fd: PQsocket(connection.pointer), events: events, revents: 0)
            descriptors[1] = pollfd(fd: waker.readEnd, events: Int16(POLLIN), revents: 0)
            _ = poll(descriptors.baseAddress, 2, milliseconds)
            if descriptors[1].revents != 0 { waker.drain() }
        }
    }

    private var areCancelsDealtWith: Bool {
        cancelHandle?.waitForRequests(milliseconds: settings.cancelGrace) ?? true
    }

    // MARK: Notifications

    /// Waits up to a minute for a notification on a channel that the session listens to; several count as one.
    ///
    /// Call it inside ``run(_:)``; cancelling the task ends the wait with an error.
    package func waitForNotification() throws(PostgresError) -> Bool {
        let connection = try live()
        let deadline = monotonicMilliseconds() + 60_000
        while true {
            if takeNotifications(connection) { return true }
            let left = deadline - monotonicMilliseconds()
            guard left > 0 else { return false }
            try waitForInput(connection, milliseconds: Int32(clamping: left))
            guard PQconsumeInput(connection.pointer) == 1, !connection.isBad else { throw lost(connection) }
        }
    }

    /// Wakes the sessions that listen to a channel, in a transaction of its own, outside any other.
    ///
    /// A transaction that notifies locks out all others that do, on the whole server, until its commit is over. So this
    /// one waits neither for the disk nor for a standby.
    package func notify(_ channel: String) throws(PostgresError) {
        try run("SELECT set_config('synchronous_commit', 'off', true), pg_notify(\(channel), '')")
    }

    /// Wakes the sessions that listen to a channel, once the open transaction has committed, or now if there is none.
    ///
    /// A notification may be lost: what has committed does not fail for it.
    package func notifyAfterCommit(_ channel: String) {
        channels.insert(channel)
        if !isInTransaction { notifyAll() }
    }

    /// Notifies ``channels``, after the commit.
    func notifyAll() {
        let due = channels
        // First: behind a pooler a notification is a transaction like any other, which ends here too.
        channels = []
        for channel in due { do throws(PostgresError) { try notify(channel) } catch {} }
    }

    private func takeNotifications(_ connection: ConnectionHandle) -> Bool {
        var isNotified = false
        // We own each notification and free it.
        while let notification = PQnotifies(connection.pointer) {
            PQfreemem(notification)
            isNotified = true
        }
        return isNotified
    }
}
