/// The stable id of every event that is logged (the field `event`).
///
/// People write alerts and searches against these: an id is never changed, only retired.
package enum EventName: String, CaseIterable, Sendable {
    // The process.
    case starting = "worker.starting"
    case draining = "worker.draining"
    case stopped = "worker.stopped"
    case givingUp = "worker.giving_up"
    case graceExpired = "worker.grace_expired"
    case secondSignal = "worker.second_signal"
    case workerUnlisted = "worker.unlisted"
    case workerReady = "worker.ready"
    case loopStuck = "worker.loop_stuck"
    case loopMoving = "worker.loop_moving"
    case managerUnreachable = "worker.manager_unreachable"
    case logLinesDropped = "log.lines_dropped"
    case configurationReloaded = "configuration.reloaded"
    case configurationReloadFailed = "configuration.reload_failed"
    case configurationNeedsRestart = "configuration.needs_restart"
    case credentialsChanged = "configuration.credentials_changed"

    // Connections.
    case connecting = "stream.connecting"
    case streamConnected = "stream.connected"
    case connectFailed = "stream.connect_failed"
    case tlsRefused = "stream.tls_refused"
    case saslRefused = "stream.sasl_refused"
    case negotiationFailed = "stream.negotiation_failed"
    case streamAuthenticated = "stream.authenticated"
    case streamBound = "stream.bound"
    case streamDraining = "stream.draining"
    case streamClosed = "stream.closed"
    case streamError = "stream.error"
    case pingTimeout = "stream.ping_timeout"
    case streamUnmanaged = "stream.unmanaged"
    case streamWithdrawn = "stream.withdrawn"
    case streamRival = "stream.rival"
    case certificateExpiring = "tls.certificate_expiring"
    case reconnectScheduled = "stream.reconnect_scheduled"
    case stanzaIgnored = "stanza.ignored"

    // The database.
    case databaseUnavailable = "database.unavailable"
    case databaseRecovered = "database.recovered"
    case schemaDiffers = "schema.differs"
    case schemaFits = "schema.fits"
    case standbyAwaited = "database.standby_awaited"
    case standbyWaitEnded = "database.standby_wait_ended"
    case databaseWarning = "database.warning"
    case partitionsCreated = "database.partitions_created"
    case partitionsFailed = "database.partitions_failed"
    case partitionsDropped = "database.partitions_dropped"
    case retentionDone = "retention.done"
    case retentionHeld = "retention.held"
    case retentionFailed = "retention.failed"
    case retentionPolicyRaised = "retention.policy_raised"
    case retentionPolicyDiffers = "retention.policy_differs"
    case retentionWaits = "retention.waits"
    case clockDiffers = "clock.differs"
    case clockAgrees = "clock.agrees"

    // Messages.
    case rowRefused = "message.row_refused"

    // Handlers.
    case deliveryFailed = "delivery.failed"
    case deadLettered = "delivery.dead_lettered"
    case handlerPaused = "handler.paused"
    case handlerResumed = "handler.resumed"
    case handlerFailing = "handler.failing"
    case handlerRecovered = "handler.recovered"
    case handlerUnclaimed = "handler.unclaimed"
    case handlerReregistered = "handler.reregistered"
    case handlerHanging = "handler.hanging"
    case leaseLost = "delivery.lease_lost"
    case attemptsUnrecorded = "delivery.attempts_unrecorded"
    case messageHandled = "handler.message"
    case handlerOutput = "handler.output"
    case handlerProcessEnded = "handler.process_ended"
    case notificationsUnavailable = "database.notifications_unavailable"

    // Replays.
    case replayTaken = "replay.taken"
    case replayEnded = "replay.ended"
    case replayEndpoint = "replay.endpoint"

    // Tracing.
    case tracingFailed = "tracing.export_failed"
    case tracingRecovered = "tracing.export_recovered"

    // The admin endpoints.
    case adminListening = "admin.listening"
    case adminFailed = "admin.failed"

    // The console.
    case consoleListening = "console.listening"
    case consoleFailed = "console.failed"
    case consoleOpen = "console.open"
    case consoleSignedIn = "console.signed_in"
    case consoleSignInRefused = "console.sign_in_refused"
    case consoleTokenUnreadable = "console.token_unreadable"
    case consoleRequest = "console.request"
    case consoleRequestFailed = "console.request_failed"

    /// What a library of ours logged by itself.
    case library = "library"
}
