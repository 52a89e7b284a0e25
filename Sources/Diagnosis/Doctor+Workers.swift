import MessageStore
import Postgres
import Vocabulary

/// Checks workers, senders and handlers.
extension Doctor {
    /// Workers by their heartbeats, and senders by the workers' streams.
    func workers(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let workers = try await connection.run { connection throws(PostgresError) in
            try WorkerTable.list(connection)
        }
        let alive = workers.filter(\.isAlive)
        let names = Said.names(alive.map { "\($0.worker) (\($0.version))" })
        diagnosis.note("workers", alive.isEmpty ? "none" : names)
        // After a server start, all are silent until they next report.
        let (uptime, now) = (try await uptime(), try await connection.databaseTime())
        for worker in workers where !worker.isAlive && !worker.isStopping && uptime >= limits.settling.inSeconds {
            guard now - worker.heartbeatAt < .seconds(600) else { continue }
            diagnosis.find(
                .workerSilent,
                "worker \(worker.worker) has been silent since \(worker.heartbeatAt.shown) and did not stop in order",
                fix:
                    "look at its machine and log; its deliveries go to others after dispatch.lease. Its row stays for a "
                    + "day, or until somebody dismisses it in the console"
            )
        }
        if !alive.isEmpty {
            judge(alive, &diagnosis)
            certificates(alive.flatMap(\.certificates), &diagnosis)
        } else if uptime >= limits.settling.inSeconds || !workers.contains(where: { !$0.isStopping }) {
            diagnosis.find(
                .noWorkers,
                "no worker is running: nothing is received or handled",
                fix:
                    "upstream-worker check --connect, as its user, says what stops it; systemctl status upstream-worker"
            )
        }
        for sender in try await rows(DoctorStatements.mixedScopes, as: String.self) {
            diagnosis.find(
                .idScopesDiffer,
                "messages of sender \(sender) got keys of both id_scope within 10 minutes: one that comes to workers that "
                    + "differ in it is stored and handled twice",
                fix:
                    "set the same id_scope in every worker's configuration; upstream-worker config show says what one has"
            )
        }
        guard let newest = try await rows(DoctorStatements.newest, as: Timestamp?.self).first ?? nil else { return }
        let ahead = newest - now
        diagnosis.note("newest message", newest.shown)
        if ahead > limits.clock {
            diagnosis.find(
                .messagesFromFuture,
                "the newest message was received \(Amount.time(ahead.inSeconds)) ahead of the database's clock, "
                    + "which stamps messages: it may have been set back",
                fix: "run an NTP client (systemd-timesyncd, chrony) on the database's machine and the workers'"
            )
        }
    }

    private func judge(_ alive: [WorkerRow], _ diagnosis: inout Diagnosis) {
        let versions = Set(alive.map(\.version)).sorted()
        if versions.count > 1 {
            diagnosis.find(
                .workerVersions,
                "workers of different versions run: \(Said.names(versions))",
                fix: "finish the upgrade; only neighbouring versions are tested side by side"
            )
        }
        for worker in alive {
            guard let ahead = worker.rates.clockAhead, ahead.magnitude > limits.clock.inSeconds else { continue }
            diagnosis.find(
                .workerClockDiffers,
                "the clock of worker \(worker.worker) is \(Amount.time(ahead.magnitude)) \(ahead > 0 ? "ahead of" : "behind") the "
                    + "database's: it stamps messages by the database's",
                fix: "run an NTP client (systemd-timesyncd, chrony) on both machines"
            )
        }
        let receivers = alive.filter { $0.roles.contains("receive") }
        if receivers.isEmpty {
            diagnosis.find(
                .noReceiver,
                "no running worker receives: all were started with --roles dispatch",
                fix: "start one with --roles receive, or without --roles"
            )
        }
        // A worker that has just started is still connecting: it is judged later.
        func isSettled(_ worker: WorkerRow) -> Bool { worker.heartbeatAt - worker.startedAt >= limits.settling }
        var bound: [String: Int] = [:]
        var judged: Set<String> = []
        for worker in receivers where !worker.isStopping {
            for stream in worker.streams { bound[stream.sender, default: 0] += stream.bound }
            if isSettled(worker) { judged.formUnion(worker.streams.map(\.sender)) }
        }
        for sender in bound.filter({ $0.value == 0 && judged.contains($0.key) }).keys.sorted() {
            diagnosis.find(
                .senderUnbound,
                "sender \(sender) has no bound stream in any worker: its messages stay with the server",
                fix:
                    "upstream-worker check --connect; stream.error and the reasons of upstream_reconnects_total say why"
            )
        }
        for worker in alive where worker.inFlight > 0 && worker.rates.seconds > 0 && isSettled(worker) {
            guard worker.rates.stored == 0, worker.rates.duplicates == 0, worker.rates.acked == 0 else { continue }
            diagnosis.find(
                .commitsStalled,
                "worker \(worker.worker) has \(Amount.counted(worker.inFlight, "message")) in flight and has committed none "
                    + "for \(Amount.time(worker.rates.seconds))",
                fix: "mend what the critical findings name (rights, a lock, a standby, the disk); without one, its "
                    + "/readyz?verbose says what commits wait for"
            )
        }
        for worker in alive {
            for handler in worker.handlers where (handler.failedInRow ?? 0) >= limits.failures && !handler.isPaused {
                // If the handler is down, its breaker says so.
                guard handler.circuit == "closed" else { continue }
                diagnosis.find(
                    .handlerNeverDone,
                    "handler \(handler.handler) has failed its last \(Amount.count(handler.failedInRow ?? 0)) attempts in "
                        + "worker \(worker.worker), whatever the message, and is not down: it only answers so",
                    fix:
                        "upstream-worker deliveries list --handler \(handler.handler) shows what it answers; until it is "
                        + "mended: upstream-worker handlers pause \(handler.handler)"
                )
            }
        }
    }

    /// The certificates that workers have seen, each with its earliest end: a server may have several machines.
    private func certificates(_ seen: [WorkerReport.Certificate], _ diagnosis: inout Diagnosis) {
        guard !seen.isEmpty else { return }
        let now = Int(clock().microseconds / 1_000_000)
        let ends = Dictionary(grouping: seen) { [$0.certificate, $0.name] }.compactMap {
            $1.min { $0.endsAt < $1.endsAt }
        }
        .sorted { ($0.endsAt, $0.certificate, $0.name) < ($1.endsAt, $1.certificate, $1.name) }
        func title(_ certificate: WorkerReport.Certificate) -> String {
            certificate.name.isEmpty ? certificate.certificate : "\(certificate.certificate) of \(certificate.name)"
        }
        diagnosis.note("certificates", Said.names(ends.map { "\(title($0)) \(Amount.ending($0.endsAt - now))" }))
        for certificate in ends where certificate.endsAt - now < Int(limits.certificate.inSeconds) {
            let name = certificate.name
            func find(_ what: String, fix: String) {
                let ending = Amount.ending(certificate.endsAt - now)
                diagnosis.find(.certificateEnding, "the certificate of the \(what) \(ending)", fix: fix)
            }
            switch certificate.certificate {
            case "server":
                let fix = "whoever runs that server renews it; the next connection shows the new one"
                find("server of sender \(name)", fix: fix)
            case "client":
                let fix = "renew the sender's tls.client_certificate_file, then restart its workers"
                find("worker for sender \(name)", fix: fix)
            case "webhook": find("endpoint of handler \(name)", fix: "whoever runs the endpoint renews it")
            case "webhook_client":
                let fix = "renew the handler's webhook.certificate_file: it is read again by itself"
                find("worker for handler \(name)", fix: fix)
            default: find("console", fix: "renew console.tls.certificate_file, then restart the console")
            }
        }
    }

    /// The server's uptime in seconds.
    private func uptime() async throws(PostgresError) -> Double {
        try await rows(DoctorStatements.uptime, as: Double.self).first ?? 0
    }

    /// Handlers, their waiting deliveries and dead letters.
    func handlers(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        let states = try await HandlerStates(connection).list(counted: Self.counted)
        let breakers = try await HandlerBreaker.all(connection)
        let pauses = Dictionary(try await rows(DoctorStatements.paused, as: (String, Double).self)) { $1 }
        // Workers report their handlers every minute, and none while the server is down.
        let isSettled = try await uptime() >= limits.settling.inSeconds
        for state in states where isSettled || state.isClaimed {
            judge(state, breakers[state.name], paused: pauses[state.name], &diagnosis)
        }
        let lastHour = DoctorStatements.died(within: .seconds(3_600), counted: Self.counted)
        let died = try await rows(lastHour, as: Int.self).first ?? 0
        let dead = states.reduce(0) { $0 + $1.deadLetters }
        if died >= limits.deadLetters {
            diagnosis.find(
                .deadLettersGrowing,
                "\(Amount.counted(died, "delivery", plural: "deliveries")) gave up within the last hour",
                fix: "upstream-worker dead groups --since 1h; when it is mended, upstream-worker dead retry"
            )
        } else if dead > 0 {
            diagnosis.find(
                .deadLetters,
                "there are \(Amount.counted(dead, "dead letter"))",
                fix: "upstream-worker dead groups; they are deleted after retention.dead_letters"
            )
        }
    }

    private func judge(
        _ state: HandlerState,
        _ breaker: HandlerBreaker?,
        paused: Double?,
        _ diagnosis: inout Diagnosis
    ) {
        let waiting = Amount.counted(state.depth, "delivery", plural: "deliveries")
        if state.isPaused {
            guard let paused, paused >= limits.pause.inSeconds else { return }
            let reason = state.pausedReason.map { " (\($0))" } ?? ""
            return diagnosis.find(
                .handlerPaused,
                "handler \(state.name) has been paused for \(Amount.time(paused))\(reason); \(waiting) wait",
                fix: "upstream-worker handlers resume \(state.name)"
            )
        }
        if !state.isClaimed {
            guard state.depth > 0 || !state.categories.isEmpty else { return }
            return diagnosis.find(
                .handlerUnclaimed,
                "no worker has run handler \(state.name) since \(state.seenAt.shown); \(waiting) wait",
                fix: "configure it in a worker, or upstream-worker handlers remove \(state.name)"
            )
        }
        if let breaker, breaker.isFailing {
            diagnosis.find(
                .handlerFailing,
                "handler \(state.name) is failing: its circuit breaker is open, \(breaker.probe); \(waiting) wait",
                fix: "upstream-worker deliveries list --handler \(state.name) shows what fails"
            )
        }
        if let age = state.oldestAge, age >= limits.delivery {
            diagnosis.find(
                .deliveriesOld,
                "the oldest delivery to handler \(state.name) has waited for \(Amount.time(age.inSeconds)); \(waiting) wait",
                fix: "upstream-worker deliveries list --handler \(state.name); raise its concurrency if it only falls "
                    + "behind"
            )
        }
    }

    /// Quarantined or conflicting messages that arrive much more often than before.
    func oddMessages(_ diagnosis: inout Diagnosis) async throws(PostgresError) {
        for (table, name) in [
            (DoctorStatements.OddTable.quarantine, FindingName.quarantineSurge), (.conflicts, .conflictSurge),
        ] {
            let arrivals = DoctorStatements.arrivals(table, counted: Self.counted)
            for (hour, day) in try await rows(arrivals, as: (Int, Int).self)
            where hour >= limits.surge && hour > day / 24 * 3 {
                let what = table == .quarantine ? "stanzas went to quarantine" : "messages reused a known id"
                diagnosis.find(
                    name,
                    "\(Amount.count(hour)) \(what) within the last hour, \(Amount.count(day)) within the day before",
                    fix: "upstream-worker \(table.rawValue) list --since 1h shows of which app"
                )
            }
        }
    }
}
