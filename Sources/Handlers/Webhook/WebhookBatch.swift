import Digests
import Dispatcher
import FoundationEssentials
import HTTPWire
import NIOHTTP1
import UpstreamKit
import Vocabulary

// Several messages in one request: `application/cloudevents-batch+json`, one signature.
//
// What may lie in one of them (400, 413, 422, and statuses that reject) is asked of halves, until the message is alone. Any
// other failure is the first message's, and those behind it go alone: one of them may make the endpoint fail.
extension WebhookHandler {
    /// An answer's body of this length may name failed messages; that of a large batch, as many bytes for each.
    private static let answerLimit = (least: 256 * 1024, each: 2048)

    /// What has become of a call's messages, in their order.
    private struct Progress {
        var ends: [AttemptEnd] = []
        var requests = 0
    }

    func handle(_ calls: [AttemptCall]) async -> CallEnd {
        var progress = Progress()
        let isWhole = await take(calls[...], &progress)
        let ends = progress.ends + calls.dropFirst(progress.ends.count).map { _ in .alone }
        let isAllDone = ends.allSatisfy { if case .verdict(.done) = $0 { true } else { false } }
        // All were taken, but not together: there were too many.
        return CallEnd(ends, areTogether: isWhole && (progress.requests == 1 || !isAllDone))
    }

    /// Sends these messages and appends their ends; false, and without those of the last ones, if the rest is to go alone.
    private func take(_ calls: ArraySlice<AttemptCall>, _ progress: inout Progress) async -> Bool {
        let now = ContinuousClock.now
        // What is left when the attempts' time is over has not been tried.
        guard let last = calls.map(\.context.deadline).min(), progress.requests == 0 || now + options.timeout <= last
        else { return false }
        progress.requests += 1
        let verdict: HandlerVerdict
        do {
            let answer = try await send(batch(of: calls), until: min(last, now + options.timeout))
            if (200...299).contains(answer.status) {
                progress.ends += Self.verdicts(on: calls, answer).map { .verdict($0) }
                return true
            }
            let mayBeOne = [400, 413, 422].contains(answer.status) || options.rejectStatuses.contains(answer.status)
            if calls.count > 1, mayBeOne {
                let middle = calls.startIndex + calls.count / 2
                guard await take(calls[..<middle], &progress) else { return false }
                return await take(calls[middle...], &progress)
            }
            verdict = HandlerVerdict(try judge(answer))
        } catch {
            verdict = HandlerVerdict(error: error, isCancelled: Task.isCancelled)
        }
        progress.ends.append(.verdict(verdict))
        return calls.count == 1 && verdict.isOfMessage
    }

    private func batch(of calls: ArraySlice<AttemptCall>) throws -> HTTPRequest {
        let keys = calls.flatMap { Array($0.message.messageKey.description.utf8) }
        let id = calls.count == 1 ? calls[calls.startIndex].message.messageKey.description : "batch-" + Self.name(keys)
        var request = try makeRequest(.batch(Array(calls)), id: id)
        request.keptLimit = max(Self.answerLimit.least, calls.count * Self.answerLimit.each)
        return request
    }

    private static func name(_ keys: [UInt8]) -> String { Hex.encode(HashFunction.sha256.digest(of: keys).prefix(16)) }

    private struct Answer: Decodable {
        struct Failure: Decodable {
            var message_key: String
            /// Seconds.
            var retry_after: Double?
            var reason: String?
            var reject: Bool?
        }

        var failed: [Failure]?
    }

    /// The verdicts on messages that the endpoint took, but for those that its answer names.
    ///
    /// Declared JSON that can't be read may have named any: all are retried. What is declared as something else counts
    /// if it names messages all the same, as frameworks have other types by default.
    static func verdicts(on calls: ArraySlice<AttemptCall>, _ answer: HTTPAnswer) -> [HandlerVerdict] {
        let type = answer.headers.first(name: "content-type")?.lowercased().split { ";, \t".contains($0) }.first ?? ""
        let isDeclared = type.hasPrefix("application/json") || type.hasSuffix("+json")
        // Only an object has members. What broke off before it began, or is compressed or encoded, may have named some.
        let first = answer.body.first { !" \t\r\n".utf8.contains($0) }
        let mayName = first.map { !$0.isLetterOrDigit && !"[\"-".utf8.contains($0) } ?? !answer.isWhole
        guard mayName else { return calls.map { _ in .done } }
        let unread = HandlerFailure(
            group: "webhook answer",
            detail:
                "the endpoint's JSON answer can't be read: it must be {\"failed\": [{\"message_key\": …}]} with keys of the batch"
        )
        guard let read = try? JSONDecoder().decode(Answer.self, from: Data(answer.body)) else {
            return calls.map { _ in isDeclared ? .retry(after: nil, unread) : .done }
        }
        var failed: [MessageKey: HandlerVerdict] = [:]
        for failure in read.failed ?? [] {
            let named = MessageKey(failure.message_key)
            guard let key = named, calls.contains(where: { $0.message.messageKey == key }) else {
                return calls.map { _ in .retry(after: nil, unread) }
            }
            failed[key] = verdict(failure)
        }
        return calls.map { failed[$0.message.messageKey] ?? .done }
    }

    private static func verdict(_ failure: Answer.Failure) -> HandlerVerdict {
        let reason = failure.reason.map { ": " + $0.prefix(keptLimit) } ?? ""
        if failure.reject == true {
            return .reject(HandlerFailure(group: "webhook rejected", detail: "the endpoint rejected it" + reason))
        }
        let wait = failure.retry_after.flatMap { $0 > 0 ? Duration.seconds(min($0, 366 * 86_400)) : nil }
        let text = "the endpoint failed on it" + reason
        return .retry(after: wait, HandlerFailure(group: "webhook failed", detail: text))
    }
}

extension HandlerVerdict {
    /// Whether it is a judgement on the message, after which others may be tried.
    fileprivate var isOfMessage: Bool {
        switch self {
        case .reject, .retry, .done: true
        case .down, .pause, .unavailable, .interrupted, .cancelled: false
        }
    }
}
