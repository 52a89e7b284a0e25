import DNS
import Dispatcher
import HTTPWire
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@testable import Handlers

@Suite(.timeLimit(.minutes(10))) struct WebhookHandlerTests {
    private static let receiver = Result { try WebhookReceiver() }

    private let message = UpstreamMessage.sample(
        category: "com.example/orders",
        data: "{\n\"n\":[1,2.5,null,\"\u{E4}\u{2028}\"]}"
    )

    private func send(
        _ path: String,
        host: String = "127.0.0.1",
        allowed: [String] = ["127.0.0.0/8"],
        timeout: Duration = .seconds(20),
        secrets: [String] = [WebhookReceiver.secret],
        resolver: AddressResolver = .system,
        mode: WebhookHandler.Mode = .structured,
        rejecting: Set<Int> = [],
        times: Int = 1,
        atOnce: Int = 1
    ) async throws -> HandlerVerdict {
        let url = "http://\(host):\(try Self.receiver.get().port)\(path)"
        let endpoint = try #require(HTTPEndpoint(url))
        let options = WebhookHandler.Options(
            timeout: timeout,
            policy: NetworkPolicy(allowed: allowed.compactMap(Network.init)),
            mode: mode,
            rejectStatuses: rejecting
        )
        let handler = try WebhookHandler(endpoint, options, resolver: resolver) { secrets.map { Array($0.utf8) } }
        let context = HandlerContext(handler: "h", attempt: 3, replayID: "r-1")
        var verdict = HandlerVerdict.cancelled
        for _ in 0..<times {
            verdict = .cancelled
            await withTaskGroup(of: HandlerVerdict.self) { [message] group in
                for _ in 0..<atOnce { group.addTask { await .of(handler, message, context) } }
                for await one in group where verdict == .cancelled || one != .done { verdict = one }
            }
        }
        await handler.shutdown()
        return verdict
    }

    private func failure(_ verdict: HandlerVerdict) -> HandlerFailure? {
        switch verdict {
        case .retry(_, let failure), .down(_, _, let failure): failure
        default: nil
        }
    }

    private func isDown(_ verdict: HandlerVerdict) -> Bool {
        guard case .down = verdict else { return false }
        return true
    }

    @Test("Independent libraries accept the signature and the structured event")
    func independentLibrariesAcceptWhatWeSend() async throws {
        let path = "/verify?source=/senders/1234567890/apps/com.example%252Forders&host=127.0.0.1"
        #expect(try await send(path, times: 3) == .done)
    }

    @Test("Independent libraries accept the event in binary mode")
    func independentLibrariesAcceptTheBinaryMode() async throws {
        let path = "/verify?mode=binary&source=/senders/1234567890/apps/com.example%252Forders&host=127.0.0.1"
        #expect(try await send(path, mode: .binary) == .done)
        // The receiver tells the modes apart.
        #expect(failure(try await send(path))?.group == "webhook status 422")
    }

    @Test("During a rotation either secret verifies")
    func eitherSecretIsAcceptedDuringARotation() async throws {
        let path = "/verify?source=/senders/1234567890/apps/com.example%252Forders&host=127.0.0.1"
        let other = "whsec_" + Base64.text(Array(repeating: 9, count: 32))
        #expect(try await send(path, secrets: [WebhookReceiver.secret, other]) == .done)
        #expect(try await send(path, secrets: [other, WebhookReceiver.secret]) == .done)
        // The receiver does refuse what is signed with another secret.
        #expect(failure(try await send(path, secrets: [other]))?.group == "webhook status 422")
    }

    @Test("Each status has its outcome")
    func statusesAreJudged() async throws {
        for code in [200, 201, 202, 204, 299] { #expect(try await send("/status?code=\(code)") == .done) }
        for code in [400, 401, 404, 409, 422, 429, 500, 502, 503] {
            let verdict = try await send("/status?code=\(code)")
            #expect(failure(verdict)?.group == "webhook status \(code)")
            #expect(isDown(verdict) == (code == 429 || code >= 500), "\(code)")
        }
        guard case .pause(let failure) = try await send("/status?code=410") else {
            Issue.record("410 does not pause")
            return
        }
        #expect(failure.group == "webhook status 410")
    }

    @Test("Retry-After is honoured and capped")
    func retryAfterIsHonouredAndCapped() async throws {
        let cases: [(String, Duration?, hold: Duration?)] = [
            ("7", .seconds(7), .seconds(7)), ("1000000000000", .seconds(86_400), .seconds(3600)), ("0", .zero, nil),
            ("nonsense", nil, nil), ("-5", nil, nil),
        ]
        for code in [429, 503] {
            for (after, wait, hold) in cases {
                guard case .down(wait, hold, _) = try await send("/status?code=\(code)&after=\(after)") else {
                    Issue.record("\(after) of \(code)")
                    return
                }
            }
        }
        // An answer about one message holds that one only.
        guard case .retry(.seconds(7), _) = try await send("/status?code=409&after=7") else {
            Issue.record("409")
            return
        }
    }

    @Test("Only configured statuses reject a message for good")
    func statusesThatRefuseForGoodAreTheOperatorsChoice() async throws {
        for code in [400, 410, 422] {
            guard case .reject(let failure) = try await send("/status?code=\(code)", rejecting: [400, 410, 422]) else {
                Issue.record("\(code) is not refused")
                return
            }
            #expect(failure.group == "webhook status \(code)")
        }
        #expect(failure(try await send("/status?code=404", rejecting: [400])) != nil)
        #expect(try await send("/status?code=200", rejecting: [400]) == .done)
    }

    @Test("Redirects are not followed")
    func redirectsAreNotFollowed() async throws {
        for code in [301, 302, 303, 307, 308] {
            #expect(failure(try await send("/redirect?code=\(code)"))?.group == "webhook status \(code)")
        }
        #expect(try await send("/landings") == .done)
    }

    @Test("Answer bodies are kept truncated")
    func bodiesAreKeptTruncated() async throws {
        let failure = try #require(failure(try await send("/status?code=500&size=200000")))
        #expect(failure.detail.hasPrefix("the endpoint answered 500: because xxx"))
        #expect(failure.detail.utf8.count <= WebhookHandler.keptLimit + 100)
    }

    @Test("A slow answer times out", arguments: ["/slow-head", "/drip-head"])
    func aSlowAnswerTimesOut(_ path: String) async throws {
        #expect(failure(try await send(path, timeout: .seconds(1)))?.group == "webhook timeout")
    }

    @Test("A body that never ends delays nothing")
    func aBodyThatNeverEndsHoldsNothingUp() async throws {
        #expect(try await send("/slow-body?code=200", timeout: .seconds(5)) == .done)
        #expect(
            failure(try await send("/slow-body?code=500", timeout: .seconds(5)))?.detail.hasSuffix("500: begun") == true
        )
        #expect(try await send("/endless-body?code=200") == .done)
        #expect(failure(try await send("/endless-body?code=500"))?.group == "webhook status 500")
    }

    @Test("Broken answers are failures", arguments: ["/endless-head", "/rubbish", "/hang-up"])
    func brokenAnswersAreFailures(_ path: String) async throws {
        let failure = try #require(failure(try await send(path)))
        #expect(!failure.group.contains("status"))
    }

    @Test("A used connection that ends before the answer fails no attempt", arguments: ["", "?reset=1"], [1, 8])
    func usedConnectionsMayEnd(_ query: String, atOnce: Int) async throws {
        #expect(try await send("/once\(query)", times: 4, atOnce: atOnce) == .done)
    }

    @Test("The new connection's end is a failure, and the request is sent no third time")
    func theNewConnectionCounts() async throws {
        let name = "theNewConnectionCounts"
        #expect(isDown(try await send("/first?name=\(name)", times: 2)))
        #expect(try await send("/asked?name=\(name)&times=3") == .done)
    }

    @Test("A plain server does not get an https request")
    func tlsIsNotSpokenWithAPlainServer() async throws {
        let endpoint = try #require(HTTPEndpoint("https://127.0.0.1:\(try Self.receiver.get().port)/verify"))
        let options = WebhookHandler.Options(
            timeout: .seconds(10),
            policy: NetworkPolicy(allowed: ["127.0.0.0/8"].compactMap(Network.init))
        )
        let handler = try WebhookHandler(endpoint, options) { [Array(WebhookReceiver.secret.utf8)] }
        let verdict = await HandlerVerdict.of(handler, message, HandlerContext(handler: "h"))
        #expect(failure(verdict) != nil)
        await handler.shutdown()
    }

    // MARK: Where it connects

    @Test("Private addresses are refused")
    func privateAddressesAreRefused() async throws {
        #expect(failure(try await send("/verify", allowed: []))?.group == "webhook address refused")
        #expect(failure(try await send("/verify", host: "localhost", allowed: []))?.group == "webhook address refused")
        // Other spellings of the loopback address that getaddrinfo understands.
        for host in ["127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"] {
            #expect(failure(try await send("/landed", host: host, allowed: []))?.group.contains("webhook") == true)
        }
        #expect(try await send("/landings") == .done)
    }

    @Test("One forbidden address among several forbids the request")
    func oneBadAddressAmongSeveralSpoilsAll() async throws {
        let resolver = AddressResolver { _ in ["127.0.0.1", "10.0.0.1"].compactMap(NetworkAddress.init) }
        let verdict = try await send("/landed", host: "mixed.example", resolver: resolver)
        #expect(failure(verdict)?.group == "webhook address refused")
    }

    @Test("Plain http is allowed only inside the allowed networks")
    func plainHTTPStaysInsideAllowedNetworks() async throws {
        let resolver = AddressResolver { _ in ["8.8.8.8"].compactMap(NetworkAddress.init) }
        let verdict = try await send("/landed", host: "public.example", resolver: resolver)
        #expect(failure(verdict)?.group == "webhook plain http refused")
    }

    /// The name exists for our resolver only: a client that looked it up again would find nothing, or another host.
    @Test("The connection goes to the address that was checked")
    func connectsToTheAddressThatWasChecked() async throws {
        let lookUps = Mutex(0)
        let resolver = AddressResolver { host in
            #expect(host == "rebinding.invalid")
            lookUps.withLock { $0 += 1 }
            return ["127.0.0.1"].compactMap(NetworkAddress.init)
        }
        let path = "/verify?source=/senders/1234567890/apps/com.example%252Forders&host=rebinding.invalid"
        #expect(try await send(path, host: "rebinding.invalid", resolver: resolver, times: 2) == .done)
        #expect(lookUps.withLock { $0 } == 2)
    }

    @Test("After an unreachable address the next one is used")
    func anUnreachableAddressGivesWayToTheNext() async throws {
        // Nothing listens on 127.0.0.2's port: the receiver is bound to 127.0.0.1 only.
        let resolver = AddressResolver { _ in ["127.0.0.2", "127.0.0.1"].compactMap(NetworkAddress.init) }
        #expect(failure(try await send("/status?code=200", host: "two.invalid", resolver: resolver)) != nil)
        #expect(try await send("/status?code=200", host: "two.invalid", resolver: resolver, times: 2) == .done)
    }

    @Test("An unusable secret counts no attempt against the message")
    func anUnusableSecretIsNotTheMessagesFault() async throws {
        for secrets in [[], ["not a secret"]] {
            guard case .unavailable = try await send("/verify", secrets: secrets) else {
                Issue.record("charged to the message")
                return
            }
        }
    }
}
