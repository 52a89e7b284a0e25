import CCSEmulator
import Foundation
import Vocabulary

extension EmulateCommand {
    /// The emulator's configuration from the options; throws at the first mistake.
    func emulatorConfiguration() throws -> EmulatorConfiguration {
        var configuration = EmulatorConfiguration()
        (configuration.host, configuration.port) = try address()
        configuration.security =
            switch tls {
            case .direct: .direct
            case .starttls: .startTLS
            case .none: .none
            }
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
