import CLibPQ
import Vocabulary

extension PostgresConnection {
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
            guard PQconsumeInput(connection.pointer) == 1, !connection.isBad else {
                let message = connection.errorMessage
                close()
                throw PostgresError(.connection, message)
            }
        }
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
