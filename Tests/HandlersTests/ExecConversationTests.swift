import Testing

@testable import Handlers

@Suite struct ExecConversationTests {
    private enum Event: CaseIterable {
        case send, part, line, lineAndMore, tooLong, end
    }

    private func apply(_ event: Event, to conversation: inout ExecConversation) -> String {
        switch event {
        case .send: "\(conversation.send())"
        case .part: name(conversation.receive(Array("ab".utf8)))
        case .line: name(conversation.receive(Array("c\n".utf8)))
        case .lineAndMore: name(conversation.receive(Array("c\nd".utf8)))
        case .tooLong: name(conversation.receive(Array("123456789".utf8)))
        case .end: "\(conversation.end(.timedOut))"
        }
    }

    private func name(_ action: ExecConversation.ReceiveAction) -> String {
        switch action {
        case .wait: "wait"
        case .answer(let line): "answer " + String(decoding: line, as: UTF8.self)
        case .end(let end): "end \(end)"
        case .ignore: "ignore"
        }
    }

    /// Each state with each event; `send` while awaiting is our own mistake and traps.
    @Test("Every state has an answer to every event")
    func everyStateMeetsEveryEvent() {
        let rows: [(state: [Event], event: Event, action: String, isOpen: Bool)] = [
            ([], .send, "write", true), ([], .part, "end unasked", false), ([], .line, "end unasked", false),
            ([], .lineAndMore, "end unasked", false), ([], .tooLong, "end unasked", false), ([], .end, "true", false),
            ([.send], .part, "wait", true), ([.send], .line, "answer c", true),
            ([.send], .lineAndMore, "end unasked", false), ([.send], .tooLong, "end tooLong", false),
            ([.send], .end, "true", false), ([.send, .part], .line, "answer abc", true),
            ([.send, .part], .part, "wait", true), ([.send, .line], .send, "write", true),
            ([.end], .send, "refuse(Handlers.ExecConversation.End.timedOut)", false), ([.end], .part, "ignore", false),
            ([.end], .line, "ignore", false), ([.end], .lineAndMore, "ignore", false),
            ([.end], .tooLong, "ignore", false), ([.end], .end, "false", false),
        ]
        for row in rows {
            var conversation = ExecConversation(.line(limit: 8))
            for event in row.state { _ = apply(event, to: &conversation) }
            #expect(apply(row.event, to: &conversation) == row.action, "\(row)")
            #expect(conversation.isOpen == row.isOpen, "\(row)")
        }
    }

    @Test("An answer names durations as the configuration does")
    func durationsAsTheConfigurationWritesThem() {
        let cases: [(String, Duration?)] = [
            ("250ms", .milliseconds(250)), ("30s", .seconds(30)), ("15m", .seconds(900)), ("12h", .seconds(43_200)),
            ("30d", .seconds(2_592_000)), ("", nil), ("s", nil), ("-1s", nil), ("1", nil), ("1.5s", nil), ("1 s", nil),
            ("999999999999d", nil), ("99999999999999999999s", nil), ("367d", nil),
        ]
        for (text, duration) in cases { #expect(ExecAnswer.wait(text) == duration, "\(text)") }
    }

    @Test("Error output is cut into lines, limited in length and rate")
    func samplesLinesOfErrorOutput() {
        var sampler = LineSampler()
        #expect(sampler.take(Array("ab".utf8), second: 1) == LineSampler.Sample())
        #expect(sampler.take(Array("c\n\nd".utf8), second: 1).lines == [Array("abc".utf8)])
        let flood = sampler.take(Array(String(repeating: "x\n", count: 200).utf8), second: 1)
        #expect(flood.lines.count == ExecOutputLog.linesPerSecond - 1)
        let next = sampler.take(Array("y\n".utf8), second: 2)
        #expect(next.skipped == 200 - flood.lines.count)
        #expect(next.lines == [Array("y".utf8)])
        #expect(sampler.take(Array(repeating: 0x61, count: 10_000), second: 2).lines.isEmpty)
        #expect(sampler.finish().lines.map(\.count) == [ExecOutputLog.lineLimit])
    }
}

extension ExecConversation {
    /// Whether it could still be ended.
    fileprivate var isOpen: Bool {
        var copy = self
        return copy.end(.stopped)
    }
}
