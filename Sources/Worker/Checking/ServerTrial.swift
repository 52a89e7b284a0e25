import ConfigurationKeys
import NIOCore
import NIOPosix
import Probing
import TLSWire
import Telemetry
package import UpstreamConfiguration
import Vocabulary
import XMLWire
import XMPP
import XMPPSession

/// An account of a server, made for `check --thorough`.
package struct TrialAccount: Sendable {
    var name: String
    var password: [UInt8]

    /// Reads the accounts of a file: the one that receives, and the one that sends to it.
    package static func read(_ path: String, beside senders: [SenderConfiguration]) throws -> [TrialAccount] {
        let lines: [[UInt8]]
        do throws(FileError) { lines = try SecretFile(path: path).lines() } catch {
            throw WorkerError.failed(error.message)
        }
        let accounts = lines.compactMap { line -> TrialAccount? in
            let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 1)
            // ASCII alone: of the rest servers have forms of their own.
            guard parts.count == 2, parts[0].allSatisfy({ 0x21..<0x7f ~= $0 && !"\"&'/:<>@*".utf8.contains($0) })
            else { return nil }
            return TrialAccount(name: String(decoding: parts[0], as: UTF8.self), password: Array(parts[1]))
        }
        guard lines.count == 2, accounts.count == 2, !accounts[0].isAccount(accounts[1].name) else {
            throw WorkerError.failed(
                "'\(path)' must hold two lines, each an account's local part, a space, its password"
            )
        }
        // Devices' messages would be dropped.
        if let own = accounts.first(where: { account in senders.contains { account.isAccount($0.senderID) } }) {
            throw WorkerError.failed("'\(own.name)' is an account of a worker: make two for --thorough alone")
        }
        return accounts
    }

    /// Whether a server takes both names for the same account (RFC 7622 section 3.3).
    private func isAccount(_ other: String) -> Bool { name.lowercased() == other.lowercased() }
}

/// What a server does to messages between two accounts of its own (`check --thorough`); each step opens its own streams.
actor ServerTrial {
    /// Why a step can't be tried.
    struct Trouble: Error {
        var message: String
        var status = ExitStatus.protocolError
    }

    /// Where messages are after a while.
    struct Fate {
        var count: Int
        var came: Int
        var isInOrder = true
        /// How many went back to their sender, and why.
        var returned: Int
        var condition: String?

        var lost: Int { count - came - returned }
    }

    static let resource = "upstream-check"

    let configuration: WorkerConfiguration
    let index: Int
    private let accounts: [TrialAccount]
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    private let keys = KeyDeriver()
    /// Begins the ids of this run's messages.
    private let run = String(UInt64.random(in: .min ... .max), radix: 36)
    private var lastID = 0
    private var openDevice: TrialStream?
    private let limit: Duration
    /// When the time of all steps is over; nil before the first.
    private var deadline: NIODeadline?

    /// A trial whose steps may take so long together.
    init(_ configuration: WorkerConfiguration, index: Int, accounts: [TrialAccount], limit: Duration) {
        (self.configuration, self.index, self.accounts, self.limit) = (configuration, index, accounts, limit)
    }

    nonisolated var sender: SenderConfiguration { configuration.senders[index] }

    /// The result of a step; once the time is over its streams end, and later steps are skipped.
    func result(
        of step: @Sendable (ServerTrial) async throws(Trouble) -> Probe.Result
    ) async -> Probe.Result {
        let begun = NIODeadline.now()
        let deadline = deadline ?? begun + TimeAmount(limit)
        self.deadline = deadline
        guard begun < deadline else { return .skipped }
        let result: Probe.Result
        do throws(Trouble) { result = try await step(self) } catch {
            result = .failed(cause: error.message, fix: "see the server's log", status: error.status)
        }
        // What it found then is about our own closing.
        guard NIODeadline.now() >= deadline else { return result }
        let taken = Amount.time(Duration(deadline - begun).inSeconds)
        return .failed(
            cause: "no answer: it had taken \(taken) when the \(Amount.time(limit.inSeconds)) of all steps were over",
            fix: "see whether the server hangs, then try again; the rest was not tried",
            status: .unavailable
        )
    }

    // MARK: Streams

    /// The sender's settings for a stream of one of the accounts, as the worker's for this purpose.
    private func settings(of account: TrialAccount, _ purpose: StreamPurpose) throws(Trouble) -> SenderSettings {
        var settings: SenderSettings
        do throws(TLSError) { settings = try SenderSettings(configuration, index: index) } catch {
            throw Trouble(message: error.message, status: .configuration)
        }
        (settings.secret, settings.keys) = ({ account.password }, keys)
        // What is larger than the worker takes is to be seen.
        settings.limits.stanzaBytes *= 8
        settings.stream.senderID = account.name
        settings.stream.username = sender.username == .jid ? settings.stream.address : account.name
        settings.stream.certificateEnd = nil
        (settings.stream.payload, settings.stream.idScope) = (.gcm, .sender)
        settings.stream.trustedFrom = settings.stream.domainSpellings.map { "\(accounts[1].name)@\($0)" }
        (settings.stream.purpose, settings.stream.resource) = (purpose, nil)
        // Reading never pauses.
        (settings.stream.window, settings.stream.serverQueue) = (10_000, 10_000_000)
        // A server that stores what comes may answer late.
        settings.stream.keepaliveTimeout = .seconds(30)
        return settings
    }

    private func open(
        _ settings: SenderSettings,
        holds: Bool = false,
        resuming suspended: SuspendedSession? = nil
    ) async throws(Trouble) -> TrialStream {
        let (stream, news) = await TrialStream.open(
            settings,
            on: eventLoop,
            holds: holds,
            resuming: suspended,
            until: deadline
        )
        guard let end = news.end else { return stream }
        let status: ExitStatus =
            switch end.reason {
            case .authenticationFailed: .refused
            case .connectFailed: .unavailable
            default: .protocolError
            }
        throw Trouble(message: "\(settings.stream.address): \(end.message)", status: status)
    }

    /// Signs the receiver in, as a worker does; one that holds commits nothing until it is told.
    func receiver(
        for purpose: StreamPurpose = .messages,
        holds: Bool = false,
        resume: Duration = .zero,
        resuming suspended: SuspendedSession? = nil
    ) async throws(Trouble) -> TrialStream {
        var settings = try settings(of: accounts[0], purpose)
        (settings.stream.resource, settings.stream.resume) = (Self.resource, resume)
        return try await open(settings, holds: holds, resuming: suspended)
    }

    /// The sender's stream, opened again if it has ended.
    func device() async throws(Trouble) -> TrialStream {
        if let openDevice, await openDevice.news.end == nil { return openDevice }
        let stream = try await open(settings(of: accounts[1], .archive))
        openDevice = stream
        return stream
    }

    /// Waits until the server has taken what was sent.
    func settle(_ stream: TrialStream) async throws(Trouble) {
        guard await stream.ask("<ping xmlns=\"urn:xmpp:ping\"/>", .seconds(30)) == nil else { return }
        throw Trouble(message: await stream.news.end?.message ?? "the server answers nothing within 30 s")
    }

    // MARK: Messages

    func nextID() -> String {
        lastID += 1
        return "\(run)-\(lastID)"
    }

    /// A device's message to the receiver; `data` is the XML of a JSON text.
    func message(_ id: String, data: String = "1", hasBody: Bool = true) -> String {
        let json = "{\"message_id\":\"\(id)\",\"from\":\"check\",\"category\":\"check\",\"data\":\(data)}"
        let body = hasBody ? "<body>upstream-worker check</body>" : ""
        return "<message to=\"\(accounts[0].name)@\(sender.domain)\" id=\"\(id)\">\(body)"
            + "<gcm xmlns=\"google:mobile:data\">\(json)</gcm></message>"
    }

    /// Sends messages, and returns their ids once the server has taken them.
    func post(_ count: Int) async throws(Trouble) -> [String] {
        let device = try await device()
        let ids = (0..<count).map { _ in nextID() }
        device.send(ids.map { message($0) }.joined())
        try await settle(device)
        return ids
    }

    /// Waits until each of these has come or gone back, or the time is over; a while only if their stream has ended.
    func fate(
        of ids: [String],
        at receiver: TrialStream,
        within limit: Duration = .seconds(10)
    ) async -> Fate {
        var deadline = ContinuousClock.now + limit
        while true {
            let device = await openDevice?.news
            if device?.end != nil { deadline = min(deadline, .now + .seconds(1)) }
            let returned = device?.returned ?? [:]
            let back = ids.filter { returned[$0] != nil }
            let missing = Set(ids).subtracting(back)
            let news = await receiver.wait(.milliseconds(250)) { missing.isSubset(of: $0.ids) }
            let came = missing.intersection(news.ids)
            guard came == missing || news.end != nil || ContinuousClock.now > deadline else { continue }
            return Fate(
                count: ids.count,
                came: came.count,
                isInOrder: news.messages.map(\.id).filter(came.contains) == ids.filter(came.contains),
                returned: back.count,
                condition: back.first.flatMap { returned[$0]?.rawValue }
            )
        }
    }

    /// Takes whatever is stored for the receiver, and returns how much that was.
    @discardableResult
    func drain() async throws(Trouble) -> Int {
        let stream = try await receiver()
        try await settle(stream)
        let deadline = ContinuousClock.now + .seconds(120)
        var count = 0
        while await !stream.wait(.seconds(1), until: { $0.messages.count > 500 }).messages.isEmpty {
            count += await stream.takeMessages().count
            guard ContinuousClock.now < deadline else {
                await stream.close()
                throw Trouble(message: "messages for \(accounts[0].name) keep coming: make two accounts for this alone")
            }
        }
        await stream.close()
        return count
    }
}
