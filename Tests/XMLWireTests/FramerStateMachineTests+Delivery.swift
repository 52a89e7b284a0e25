import Testing

@testable import XMLWire

// Events for the consumer, and what the consumer asks for.
extension FramerStateMachineTests {
    @Test("a header is delivered if it is UTF-8, a stream's, and not too long")
    func headerEnded() {
        let cases: [(Int, Bool, Bool, State)] = [
            (49, true, true, Self.delivering(.opened, end: 5)),
            (50, true, true, Self.failed(.limit(.headerBytes), .header)),
            (49, true, false, Self.failed(.invalidNamespace, .header)),
            (50, false, false, Self.failed(.badEncoding, .header)),
        ]
        for (bytes, isUTF8, isStream, state) in cases {
            let action: Machine.DeliverAction = state == Self.delivering(.opened, end: 5) ? .deliver : .stopParser
            Self.check(
                { $0.headerEnded(bytes: bytes, isUTF8: isUTF8, isStream: isStream, at: 5) },
                [.inHeader: (action, state)],
                otherwise: .stopParser
            )
        }
    }

    @Test("a stanza of the limit is delivered, a larger one fails")
    func stanzaEnded() {
        for (size, action, state) in [
            (100, Machine.DeliverAction.deliver, Self.delivering(.stanza, end: 5)),
            (101, .stopParser, Self.failed(.limit(.stanzaBytes), .stanza)),
        ] {
            Self.check(
                { $0.stanzaEnded(at: 5, size: size) },
                [.begun: (action, state), .inside: (action, state), .deeper: (action, state)],
                otherwise: .stopParser
            )
        }
    }

    @Test("the stream's end is delivered")
    func documentEnded() {
        let closed: (Machine.DeliverAction, State) = (.deliver, Self.delivering(.closed, end: 5))
        Self.check(
            { $0.documentEnded(at: 5) },
            [.betweenStanzas: closed, .begun: closed, .inside: closed, .deeper: closed],
            otherwise: .stopParser
        )
    }

    @Test("a rejected stanza is skipped, unless its beginning ends the stream")
    func skippingBegan() {
        for (outcome, action, state) in [
            (StanzaSkipper.Outcome.more, Machine.SkipAction.more, State.skipping(.depth)),
            (.ended(3), .fail, Self.failed(.notWellFormed, .stanza)),
            (.failed(.comment), .fail, Self.failed(.comment, .stanza)),
        ] {
            Self.check({ $0.skippingBegan(with: outcome) }, [.rejecting: (action, state)], otherwise: .fail)
        }
    }

    @Test("a skipped stanza is delivered at its end, within the limit of its size")
    func skipped() {
        let over = Self.failed(.limit(.stanzaBytes), .stanza)
        for (outcome, size, action, state) in [
            (StanzaSkipper.Outcome.more, 99, Machine.SkipAction.more, Place.skipping.state),
            (.more, 100, .fail, over),
            (.ended(3), 100, .deliver(.depth), Self.delivering(.skipped, end: 13)),
            (.ended(3), 101, .fail, over),
            (.failed(.entity), 1, .fail, Self.failed(.entity, .stanza)),
        ] {
            Self.check(
                { $0.skipped(outcome, size: size, start: 10) },
                [.skipping: (action, state)],
                otherwise: .fail
            )
        }
    }

    @Test("after an event the parser reads on, or is left for what the consumer asked for")
    func eventHandled() {
        Self.check(
            { $0.eventHandled() },
            [.delivering: (.readOn(from: 7), .betweenStanzas)],
            otherwise: .stopParser
        )
        Self.check(
            { $0.eventHandled(replacesParser: true) },
            [.delivering: (.stopParser, .leaving(offset: 7, next: .betweenStanzas))],
            otherwise: .stopParser
        )
        for event in Machine.Event.allCases where event != .skipped {
            let position: XMLStreamPosition = event == .closed ? .closed : .betweenStanzas
            for (request, next) in [
                (Machine.Request.restart, Machine.Successor.beforeHeader), (.stop, .stopped(at: position)),
                (.none, event == .closed ? .closed : .betweenStanzas),
            ] {
                var machine = Machine(limits: Self.limits)
                machine.state = Self.delivering(event, end: 7, request)
                let action = machine.eventHandled(replacesParser: true)
                let state = machine.state
                #expect(action == .stopParser && state == .leaving(offset: 7, next: next), "\(event) \(request)")
            }
        }
    }

    @Test("after a skipped stanza it goes on at once, as no parser runs")
    func skippedStanzaHandled() {
        for (request, action, next) in [
            (Machine.Request.none, Machine.SkippedHandledAction.readOn(from: 7), State.betweenStanzas),
            (.restart, .beginDocument(from: 7), .beforeHeader(isRestart: true)),
            (.stop, .finish, .stopped(.betweenStanzas)),
        ] {
            var machine = Machine(limits: Self.limits)
            machine.state = Self.delivering(.skipped, end: 7, request)
            let taken = machine.skippedStanzaHandled()
            let state = machine.state
            #expect(taken == action && state == next)
        }
        Self.check(
            { $0.skippedStanzaHandled() },
            [.delivering: (.readOn(from: 7), .betweenStanzas)],
            otherwise: .finish
        )
    }

    @Test("a request during an event waits for its end, and the last one counts; elsewhere it is done at once")
    func requests() {
        var restarts: [Place: (Machine.RequestAction, State)] = [:]
        var stops: [Place: (Machine.RequestAction, State)] = [:]
        for place in Place.allCases {
            restarts[place] = (.forget, .beforeHeader(isRestart: true))
            var machine = Machine(limits: Self.limits)
            machine.state = place.state
            stops[place] = (.forget, .stopped(machine.position))
        }
        for place in [Place.stopped, .failed] {
            restarts[place] = (.ignore, place.state)
            stops[place] = (.ignore, place.state)
        }
        restarts[.delivering] = (.ignore, Self.delivering(.stanza, end: 7, .restart))
        stops[.delivering] = (.ignore, Self.delivering(.stanza, end: 7, .stop))
        Self.check({ $0.restart() }, restarts, otherwise: .ignore)
        Self.check({ $0.stop() }, stops, otherwise: .ignore)
        for (first, second) in [(Machine.Request.restart, Machine.Request.stop), (.stop, .restart)] {
            var machine = Machine(limits: Self.limits)
            machine.state = Self.delivering(.stanza, end: 7, first)
            _ = second == .stop ? machine.stop() : machine.restart()
            let request = machine.delivery?.request
            #expect(request == second)
        }
    }

    @Test("what the state says of the document")
    func properties() {
        let parsed: Set<Place> = [.inHeader, .betweenStanzas, .replaying, .begun, .inside, .deeper]
        let positions: [Place: XMLStreamPosition] = [
            .fresh: .beforeHeader, .restarted: .beforeHeader, .inHeader: .header, .betweenStanzas: .betweenStanzas,
            .delivering: .betweenStanzas, .leaving: .betweenStanzas, .stopped: .betweenStanzas, .closed: .closed,
        ]
        for place in Place.allCases {
            var machine = Machine(limits: Self.limits)
            machine.state = place.state
            let (position, isParsing, isFinal) = (machine.position, machine.isParsing, machine.isFinal)
            let (keepsText, ignoresWhitespace) = (machine.keepsText, machine.ignoresWhitespace)
            let (canReleaseMemory, failure) = (machine.canReleaseMemory, machine.failure)
            #expect(position == positions[place] ?? .stanza, "\(place)")
            #expect(isParsing == parsed.contains(place), "\(place)")
            #expect(isFinal == [.stopped, .failed].contains(place), "\(place)")
            #expect(keepsText == [.inside, .deeper].contains(place), "\(place)")
            #expect(ignoresWhitespace == [.restarted, .betweenStanzas, .closed].contains(place), "\(place)")
            #expect(canReleaseMemory == [.betweenStanzas, .closed].contains(place), "\(place)")
            #expect((failure != nil) == (place == .failed), "\(place)")
        }
    }
}
