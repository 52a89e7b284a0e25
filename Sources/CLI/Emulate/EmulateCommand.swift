import ArgumentParser
import CCSEmulator
import Foundation
import LocalDatabase
import Vocabulary

struct EmulateCommand: ProgramCommand {
    static let manual = """
        emulate: A CCS-compatible server for development, tests and load.
          upstream-worker emulate --count 10000 --write-ca /tmp/ca.pem
          upstream-worker emulate --rate 500 --devices 5000 --transcript talk.jsonl
          upstream-worker emulate --count 10000 --acks acks.ndjson
          upstream-worker emulate --faults 'every 50: duplicate; after 200: drain'
          upstream-worker emulate --tls none --count 10 --json

        With --count it ends when every message was sent and acked, otherwise at a
        signal. It then prints a summary: exit code 0 when every message was acked,
        each delivered copy at most once and on its own connection, and nothing
        unexpected was received; otherwise 1.

        A fault script has one rule per line, or rules separated by semicolons:
          after N: FAULT         once, with the Nth delivery
          every N: FAULT         with every Nth delivery
          connection N: FAULT    for one connection, or for N-M
        Faults:
        \(FaultScript.reference.map { "  \($0.usage): \($0.meaning)" }.joined(separator: "\n"))
        """

    @Option(help: "Address and port to listen on; port 0 takes a free one.") var listen = "127.0.0.1:5235"
    @Option(help: "How connections are secured.") var tls = EmulatorConfiguration.Security.direct
    @Option(help: .value("file", "PEM file with the certificate and its chain.")) var certificate: String?
    @Option(help: .value("file", "PEM file with the certificate's private key.")) var key: String?
    @Option(help: .value("file", "Write the CA of the generated certificate to this file.")) var writeCA: String?
    @Option(help: "Only this sender id may sign in; any by default.") var senderID: String?
    @Option(help: .value("file", "File with that sender's secret.")) var secretFile: String?
    @Option(help: "Unacked messages allowed on a connection.") var window = 100
    @Option(help: "Messages per second; as many as the window allows by default.") var rate: Double?
    @Option(help: "Distinct messages for each sender; unlimited by default.") var count: Int?
    @Option(help: "Devices that messages come from.") var devices = 1000
    @Option(help: "Categories, separated by commas, each with an optional :weight.") var categories = "com.example.app"
    @Option(help: "Bytes of a message's JSON, or a range such as 200-4000.") var size = "400"
    @Option(help: "Share of delivery receipts, 0 to 1.") var receipts = 0.0
    @Option(help: .value("script", "Fault script: a file, or the script itself.")) var faults: String?
    @Option(help: .value("file", "Log both directions to this file, one JSON object per line.")) var transcript: String?
    @Option(help: .value("file", "Write accepted acks to this file, for `upstream-worker audit --against`."))
    var acks: String?
    @Option(help: "Seed that makes the load repeatable; random by default.") var seed: UInt64?
    @Flag(help: "Print the final summary as JSON.") var json = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        let configuration = try emulatorConfiguration()
        let emulator: Emulator
        do {
            emulator = try await Emulator.start(configuration)
        } catch let error as EmulatorError {
            throw CommandFailure(.usage, error.message)
        } catch {
            throw CommandFailure(.unavailable, "can't listen on \(listen): \(error)")
        }
        if let writeCA, let authority = emulator.authorityPEM {
            do {
                try Data(authority).write(to: URL(fileURLWithPath: writeCA), options: .atomic)
            } catch {
                await emulator.stop()
                throw CommandFailure(.configuration, "can't write \(writeCA): \(FileTrouble.reason(error))")
            }
        }
        console.message("listening on \(configuration.host):\(emulator.port), seed \(configuration.load.seed)")
        await runUntilEnd(emulator, context)
        let tally = await emulator.stop()
        console.data(json ? tally.json : tally.summary)
        if !tally.isClean { throw CommandFailure(.negative) }
    }

    private func runUntilEnd(_ emulator: Emulator, _ context: CommandContext) async {
        let isFinite = count != nil
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await context.interruption() }
            if isFinite {
                group.addTask {
                    // Each wait has a limit, but there may be any number of them.
                    while !Task.isCancelled {
                        if (try? await emulator.waitUntilComplete()) != nil { return }
                    }
                }
            }
            if context.console.errors.isTerminal {
                group.addTask { await Self.showProgress(emulator, context.console) }
            }
            await group.next()
            group.cancelAll()
        }
    }

    private static func showProgress(_ emulator: Emulator, _ console: Terminal) async {
        var last = 0
        while !Task.isCancelled {
            let tally = await emulator.tally()
            let state = tally.isClean || tally.neverAcked == tally.unackedCopies ? "" : "  NOT CLEAN"
            let line =
                "\(tally.open) open  \(tally.sent) sent  \(tally.acked) acked  \(tally.unackedCopies) unacked  "
                + "\((tally.acked - last) * 2)/s\(state)"
            last = tally.acked
            console.redraw(line)
            try? await Task.sleep(for: .milliseconds(500))
        }
        console.redraw("")
    }

    /// The emulator's configuration from the options; throws at the first mistake.
    func emulatorConfiguration() throws -> EmulatorConfiguration {
        var configuration = EmulatorConfiguration()
        (configuration.host, configuration.port) = try address()
        configuration.security = tls
        if let identity = try identity() { configuration.identity = identity }
        if let credentials = try credentials() { configuration.credentials = credentials }
        configuration.window = window
        configuration.load = try load()
        configuration.faults = try faultScript()
        configuration.transcript = transcript
        configuration.acks = acks
        return configuration
    }

    private func address() throws -> (String, Int) {
        guard let colon = listen.lastIndex(of: ":"), let port = UInt16(listen[listen.index(after: colon)...]) else {
            throw CommandFailure(.usage, "--listen \(listen): expected ADDRESS:PORT, such as 127.0.0.1:5235")
        }
        let host = listen[..<colon].trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        return (host.isEmpty ? "0.0.0.0" : host, Int(port))
    }

    private func identity() throws -> EmulatorConfiguration.Identity? {
        switch (certificate, key) {
        case (nil, nil):
            if writeCA != nil, tls == .none {
                throw CommandFailure(.usage, "--write-ca: there is no certificate with --tls none")
            }
            return nil
        case (let certificate?, let key?):
            if writeCA != nil {
                throw CommandFailure(.usage, "--write-ca is for generated certificates: drop --certificate")
            }
            return .files(certificate: certificate, key: key)
        default:
            throw CommandFailure(.usage, "--certificate and --key must be given together")
        }
    }

    private func credentials() throws -> EmulatorConfiguration.Credentials? {
        switch (senderID, secretFile) {
        case (nil, nil): return nil
        case (let senderID?, let secretFile?):
            guard let text = try? String(contentsOfFile: secretFile, encoding: .utf8) else {
                throw CommandFailure(.usage, "--secret-file \(secretFile) cannot be read")
            }
            return .secrets([senderID: text.trimmingCharacters(in: .newlines)])
        default:
            throw CommandFailure(.usage, "--sender-id and --secret-file must be given together")
        }
    }

    private func load() throws -> LoadProfile {
        var load = LoadProfile(count: count)
        load.rate = rate
        load.devices = devices
        load.receiptShare = receipts
        load.seed = seed ?? UInt64.random(in: 1...UInt64.max)
        load.categories = try categories.split(separator: ",").map { text in
            let parts = text.split(separator: ":", maxSplits: 1)
            guard let name = parts.first, let weight = parts.count == 2 ? Int(parts[1]) : 1 else {
                throw CommandFailure(.usage, "--categories \(text): expected NAME or NAME:WEIGHT")
            }
            return LoadProfile.Category(name: String(name), weight: weight)
        }
        let ends = size.split(separator: "-", maxSplits: 1).compactMap { Int($0) }
        guard let least = ends.first, let most = ends.last, least <= most, size.allSatisfy({ $0.isNumber || $0 == "-" })
        else {
            throw CommandFailure(.usage, "--size \(size): expected BYTES or LEAST-MOST")
        }
        load.size = least...most
        if let problem = load.problems.first { throw CommandFailure(.usage, problem) }
        guard window > 0 else { throw CommandFailure(.usage, "--window must be 1 or more") }
        return load
    }

    private func faultScript() throws -> FaultScript {
        guard let faults else { return FaultScript() }
        var text = faults
        // Each rule of a script has a colon; a file with such a name takes precedence.
        if FileManager.default.fileExists(atPath: faults) || !faults.contains(":") {
            guard let content = try? String(contentsOfFile: faults, encoding: .utf8) else {
                throw CommandFailure(.usage, "--faults \(faults): neither a file nor a fault script")
            }
            text = content
        }
        do {
            return try FaultScript(parsing: text)
        } catch {
            throw CommandFailure(.usage, error.description)
        }
    }
}

extension EmulatorConfiguration.Security: ExpressibleByArgument {}
