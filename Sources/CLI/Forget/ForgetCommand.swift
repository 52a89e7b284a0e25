import ArgumentParser
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

struct ForgetCommand: ProgramCommand {
    static let manual = """
        forget: Erases one device: its messages, deliveries, dead letters, conflicts and quarantined stanzas.
          upstream-worker forget --token-file token.txt --dry-run
          upstream-worker forget --token-file token.txt
          upstream-worker forget --token-file token.txt --yes --json
          upstream-worker forget --requests   # what people asked for in the console

        Only the hashes in the ledger stay, so that a redelivered copy is recognised and not stored again. Needs the \
        rights of the tables' owner. Safe to repeat. WAL, backups, replicas' archives and exports are not changed: \
        see docs/retention.md.
        """

    @OptionGroup var options: CommonOptions
    @Option(help: "File with the device's registration token and nothing else.", completion: .file())
    var tokenFile: String?
    @Option(help: .unlisted("What `messages list` calls it."), completion: .file()) var fromTokenFile: String?
    @Flag(help: "Erase the devices that people asked for in the console.") var requests = false
    @Flag(help: "Only count what would be erased.") var dryRun = false
    @Flag(help: "Do not ask for confirmation.") var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object instead of a table.") var json = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        let file = tokenFile ?? fromTokenFile
        guard (file != nil) != requests else {
            throw CommandFailure(
                .usage,
                "forget needs --token-file FILE or --requests: a token is never given as an argument"
            )
        }
        let token = try file.map { Array(try TokenFile.read($0, stdin: console.input.descriptor).rawValue.utf8) }
        // VACUUM of a day's partition can be slow.
        try await options.withConnection(context, statementTimeout: 6 * 3_600_000) { connection in
            do {
                if let token {
                    try await forget(Erasure(connection, token: token), console)
                } else {
                    try await forgetRequested(connection, console)
                }
            } catch let error as PostgresError where !dryRun && error.failureClass == .permission {
                throw CommandFailure(notOwner: error, may: "delete")
            }
        }
    }

    private func forget(_ erasure: Erasure, _ console: Terminal) async throws {
        if !dryRun {
            try console.confirm(
                "Erase everything about the device \(erasure.deviceKey)? This cannot be undone.",
                yes: yes,
                because: "forget deletes (--dry-run only counts)"
            )
        }
        let counts: ErasureCounts
        do {
            let bar = ProgressBar("forget", on: console)
            defer { bar.clear() }
            counts =
                dryRun
                ? try await erasure.count { Self.show($0, bar) }
                : try await erasure.run(by: reason.author) { Self.show($0, bar) }
        }
        if json { return try console.json(members(counts, erasure)) }
        let cells = counts.tables.map { [$0.name, Amount.count($0.count)] }
        console.table(TextTable(["TABLE", .init(dryRun ? "WOULD BE ERASED" : "ERASED")], cells))
        if !dryRun { console.message("device \(erasure.deviceKey): \(Self.rest)") }
    }

    private static let rest =
        "only hashes remain in the ledger; earlier backups, WAL and exports still contain its data"

    /// Erases what the console's people asked for, which they were shown and confirmed.
    private func forgetRequested(_ connection: PostgresConnection, _ console: Terminal) async throws {
        var (rows, objects, isWhole): ([[String]], [JSONMembers], Bool) = ([], [], true)
        var fault: PostgresError?
        for request in try await MaintenanceRequests.openErasures(connection) {
            guard let device = request.deviceKey else { continue }
            let (erasure, counts, state): (Erasure, ErasureCounts, MaintenanceRequest.State)
            do throws(PostgresError) {
                erasure = try await Erasure(connection, device: device)
                (counts, state) = try await perform(request, erasure, connection, console)
            } catch {
                // What keeps one device from being erased may leave the others alone, such as a lock.
                let isOfAll = error.endsSession || [.permission, .cancelled].contains(error.failureClass)
                guard !isOfAll else { throw error }
                console.message("request \(request.id), device \(device): \(error); it is taken again")
                fault = fault ?? error
                continue
            }
            isWhole = isWhole && state != .failed
            rows.append(["\(request.id)", "\(device)", request.who, state.rawValue, Amount.count(counts.total)])
            var object = members(counts, erasure)
            object.add("request", request.id)
            object.add("who", request.who)
            object.add("state", state.rawValue)
            objects.append(object)
        }
        if json {
            try console.json(object: ["requests": objects])
        } else if rows.isEmpty {
            if fault == nil { console.message("nobody asked for a device's erasure") }
        } else {
            console.table(TextTable(["REQUEST", "DEVICE", "WHO", "STATE", .init(dryRun ? "ROWS" : "ERASED")], rows))
            if !dryRun { console.message(Self.rest) }
        }
        if let fault { throw fault }
        guard isWhole else {
            throw CommandFailure(
                .negative,
                "no message told a device's token, so that the quarantine was not searched: run forget with its token's file"
            )
        }
    }

    private func perform(
        _ request: MaintenanceRequest,
        _ erasure: Erasure,
        _ connection: PostgresConnection,
        _ console: Terminal
    ) async throws(PostgresError) -> (ErasureCounts, MaintenanceRequest.State) {
        let bar = ProgressBar("forget", on: console)
        defer { bar.clear() }
        if dryRun { return (try await erasure.count { Self.show($0, bar) }, request.state) }
        return try await MaintenanceRequests.perform(request, erasure, over: connection) { Self.show($0, bar) }
    }

    private func members(_ counts: ErasureCounts, _ erasure: Erasure) -> JSONMembers {
        var members: JSONMembers = ["device_key": erasure.deviceKey.description, "dry_run": dryRun]
        for (name, count) in counts.tables { members.add(name, count) }
        return members
    }

    private static func show(_ progress: ErasureProgress, _ bar: ProgressBar) {
        switch progress {
        case .partition(let done, let all, let counts):
            bar.show(Int64(done), of: Int64(all), "days; \(Amount.count(counts.messages)) messages")
        case .quarantine(let id, let last, let counts):
            bar.show(id, of: last, "quarantine; \(Amount.count(counts.quarantine)) stanzas")
        case .vacuum(let table, let done, let all):
            bar.show(Int64(done), of: Int64(all), "VACUUM \(table)")
        }
    }
}
