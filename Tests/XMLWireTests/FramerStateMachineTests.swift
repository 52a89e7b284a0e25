import Testing

@testable import XMLWire

/// Every state with every event: what is to be done, and the state after it.
@Suite("The framer's machine")
struct FramerStateMachineTests {
    typealias Machine = FramerStateMachine
    typealias State = FramerStateMachine.State

    /// One value of each state; two where the event goes by what the state carries.
    enum Place: CaseIterable {
        case fresh, restarted, inHeader, betweenStanzas, replaying, begun, inside, deeper, rejecting, skipping
        case delivering, leaving, closed, stopped, failed

        var state: State {
            switch self {
            case .fresh: .beforeHeader(isRestart: false)
            case .restarted: .beforeHeader(isRestart: true)
            case .inHeader: .inHeader
            case .betweenStanzas: .betweenStanzas
            case .replaying: .replayingHeader
            case .begun: .inStanza(depth: 0)
            case .inside: .inStanza(depth: 1)
            case .deeper: .inStanza(depth: 2)
            case .rejecting: .rejecting(.depth)
            case .skipping: .skipping(.depth)
            case .delivering: .delivering(Machine.Delivery(event: .stanza, end: 7))
            case .leaving: .leaving(offset: 7, next: .betweenStanzas)
            case .closed: .closed
            case .stopped: .stopped(.betweenStanzas)
            case .failed: .failed(XMLStreamError(.comment), at: .stanza)
            }
        }

        /// Fails to compile when the machine has a state without a place here.
        init(of state: State) {
            self =
                switch state {
                case .beforeHeader(let isRestart): isRestart ? .restarted : .fresh
                case .inHeader: .inHeader
                case .betweenStanzas: .betweenStanzas
                case .replayingHeader: .replaying
                case .inStanza(0): .begun
                case .inStanza(1): .inside
                case .inStanza: .deeper
                case .rejecting: .rejecting
                case .skipping: .skipping
                case .delivering: .delivering
                case .leaving: .leaving
                case .closed: .closed
                case .stopped: .stopped
                case .failed: .failed
                }
        }
    }

    static let limits: StreamLimits = {
        var limits = StreamLimits()
        (limits.stanzaBytes, limits.headerBytes, limits.depth, limits.elements) = (100, 50, 2, 4)
        (limits.attributes, limits.namespaces) = (3, 2)
        return limits
    }()

    static func failed(_ code: XMLStreamError.Code, _ position: XMLStreamPosition) -> State {
        .failed(XMLStreamError(code), at: position)
    }

    static func delivering(_ event: Machine.Event, end: Int, _ request: Machine.Request = .none) -> State {
        .delivering(Machine.Delivery(event: event, end: end, request: request))
    }

    /// Checks one event in every state: `rows` names those where it does something, in all others `otherwise` is answered
    /// and the state stays.
    static func check<Action: Equatable>(
        _ event: (inout Machine) -> Action,
        _ rows: [Place: (Action, State)],
        otherwise: Action,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        for place in Place.allCases {
            #expect(Place(of: place.state) == place, sourceLocation: sourceLocation)
            var machine = Machine(limits: limits)
            machine.state = place.state
            let (action, next) = rows[place] ?? (otherwise, place.state)
            let taken = event(&machine)
            let state = machine.state
            #expect(taken == action, "in \(place)", sourceLocation: sourceLocation)
            #expect(state == next, "after \(place)", sourceLocation: sourceLocation)
        }
    }

    /// The same for an event without an action.
    static func check(
        _ event: (inout Machine) -> Void,
        _ rows: [Place: (Void, State)],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        check(
            { machine in
                event(&machine)
                return 0
            },
            rows.mapValues { (0, $0.1) },
            otherwise: 0,
            sourceLocation: sourceLocation
        )
    }
}

extension FramerStateMachineTests {
    @Test("the first byte that is not ignored begins a header or a stanza; text between stanzas and TLS fail")
    func contentBegan() {
        let unread: [Place: (Machine.ContentAction, State)] = [
            .closed: (.fail, Self.failed(.notWellFormed, .closed)), .failed: (.fail, Place.failed.state),
        ]
        Self.check(
            { $0.contentBegan(with: UInt8(ascii: "<")) },
            unread.merging([
                .fresh: (.read, .inHeader), .restarted: (.read, .inHeader),
                .betweenStanzas: (.read, .inStanza(depth: 0)),
            ]) { $1 },
            otherwise: .read
        )
        let codes: [(UInt8, XMLStreamError.Code)] = [
            (0x15, .tlsRecord), (0x16, .tlsRecord), (0, .badEncoding), (0xFE, .badEncoding), (0xFF, .badEncoding),
        ]
        for (byte, code) in codes {
            Self.check(
                { $0.contentBegan(with: byte) },
                unread.merging([
                    .fresh: (.fail, Self.failed(code, .beforeHeader)),
                    .restarted: (.fail, Self.failed(code, .beforeHeader)),
                    .betweenStanzas: (.fail, Self.failed(.textAtStreamLevel, .betweenStanzas)),
                ]) { $1 },
                otherwise: .read
            )
        }
    }

    @Test("a parser made for a stanza is shown the header first")
    func parsers() {
        let replayed = (true, State.replayingHeader)
        Self.check(
            { $0.parserMade() },
            [.begun: replayed, .inside: replayed, .deeper: replayed],
            otherwise: false
        )
        Self.check({ $0.headerReplayed() }, [.replaying: ((), .inStanza(depth: 0))])
    }

    @Test("when the parser returns, what it was stopped for is done")
    func parserReturned() {
        let parsed: [Place] = [.inHeader, .betweenStanzas, .replaying, .begun, .inside, .deeper]
        var rows: [Place: (Machine.ReturnAction, State)] = [
            .rejecting: (.skip, Place.rejecting.state),
            .leaving: (.replaceParser(from: 7), .betweenStanzas),
        ]
        for place in parsed { rows[place] = (.keepUnfinished, place.state) }
        Self.check({ $0.parserReturned(isWellFormed: true) }, rows, otherwise: .finish)
        for place in parsed {
            let position: XMLStreamPosition =
                switch place {
                case .inHeader: .header
                case .betweenStanzas: .betweenStanzas
                default: .stanza
                }
            rows[place] = (.finish, Self.failed(.notWellFormed, position))
        }
        Self.check({ $0.parserReturned(isWellFormed: false) }, rows, otherwise: .finish)
    }

    @Test("the parser is left for the rest of the document, a new document, or for good")
    func leaving() {
        let cases: [(Machine.Successor, Machine.ReturnAction, State)] = [
            (.betweenStanzas, .replaceParser(from: 9), .betweenStanzas),
            (.closed, .replaceParser(from: 9), .closed),
            (.beforeHeader, .beginDocument(from: 9), .beforeHeader(isRestart: true)),
            (.stopped(at: .closed), .finish, .stopped(.closed)),
        ]
        for (next, action, state) in cases {
            var machine = Machine(limits: Self.limits)
            machine.state = .leaving(offset: 9, next: next)
            let taken = machine.parserReturned(isWellFormed: true)
            let after = machine.state
            #expect(taken == action && after == state)
        }
    }

    @Test("an unfinished header or stanza fails at its limit, not before")
    func kept() {
        let header: (Machine.KeptAction, State) = (.readOn, Self.failed(.limit(.headerBytes), .header))
        let tooLong: (Machine.KeptAction, State) = (.readOn, Self.failed(.limit(.stanzaBytes), .stanza))
        Self.check({ $0.kept(bytes: 49) }, [:], otherwise: .readOn)
        Self.check({ $0.kept(bytes: 99) }, [.inHeader: header], otherwise: .readOn)
        Self.check(
            { $0.kept(bytes: 100) },
            [.inHeader: header, .begun: tooLong, .inside: tooLong, .deeper: tooLong],
            otherwise: .readOn
        )
        var limits = Self.limits
        limits.skipsLongStanzas = true
        for place in [Place.begun, .inside, .deeper, .inHeader, .skipping] {
            var machine = Machine(limits: limits)
            machine.state = place.state
            let isStanza = machine.position == .stanza && place != .skipping
            let (early, action) = (machine.kept(bytes: 49), machine.kept(bytes: 100))
            let state = machine.state
            #expect(early == .readOn && action == (isStanza ? .skip : .readOn), "\(place)")
            #expect(state == (isStanza ? .rejecting(.length) : place == .inHeader ? header.1 : place.state), "\(place)")
        }
    }

    @Test("a start tag is stored within the limits; over one, the header fails and a stanza is rejected")
    func startTag() {
        Self.check(
            { $0.startTag(attributes: 3, namespaces: 2, elements: 3) },
            [
                .inHeader: (.storeHeader, .inHeader),
                .begun: (.storeElement, .inStanza(depth: 1)), .inside: (.storeElement, .inStanza(depth: 2)),
                .deeper: (.stopParser, .rejecting(.depth)),
            ],
            otherwise: .ignore
        )
        let over: [(Int, Int, Int, SkippedStanza.Reason, XMLStreamError.Limit?)] = [
            (4, 2, 3, .attributes, .attributes), (3, 3, 3, .namespaces, .namespaces), (3, 2, 4, .elements, nil),
        ]
        for (attributes, namespaces, elements, reason, limit) in over {
            let rejected: (Machine.StartTagAction, State) = (.stopParser, .rejecting(reason))
            Self.check(
                { $0.startTag(attributes: attributes, namespaces: namespaces, elements: elements) },
                [
                    .inHeader: limit.map { (.stopParser, Self.failed(.limit($0), .header)) }
                        ?? (.storeHeader, .inHeader),
                    .begun: rejected, .inside: rejected,
                    .deeper: reason == .elements ? (.stopParser, .rejecting(.depth)) : rejected,
                ],
                otherwise: .ignore
            )
        }
    }

    @Test("an end tag closes an element, a stanza, or the stream")
    func endTag() {
        Self.check(
            { $0.endTag() },
            [
                .betweenStanzas: (.finishDocument, .betweenStanzas), .begun: (.finishDocument, .inStanza(depth: 0)),
                .inside: (.finishStanza, .inStanza(depth: 1)), .deeper: (.closeElement, .inStanza(depth: 1)),
            ],
            otherwise: .ignore
        )
    }

    @Test("CDATA is text inside of a stanza and an error outside")
    func section() {
        func failed(_ position: XMLStreamPosition) -> (Machine.SectionAction, State) {
            (.stopParser, Self.failed(.textAtStreamLevel, position))
        }
        Self.check(
            { $0.section() },
            [
                .inHeader: failed(.header), .betweenStanzas: failed(.betweenStanzas), .replaying: failed(.stanza),
                .begun: failed(.stanza), .inside: (.store, .inStanza(depth: 1)),
                .deeper: (.store, .inStanza(depth: 2)),
            ],
            otherwise: .ignore
        )
    }

    @Test("an error counts while the parser is listened to")
    func fail() {
        func failed(_ position: XMLStreamPosition) -> (Machine.StopAction, State) {
            (.stopParser, Self.failed(.dtd, position))
        }
        Self.check(
            { $0.fail(XMLStreamError(.dtd)) },
            [
                .inHeader: failed(.header), .betweenStanzas: failed(.betweenStanzas), .replaying: failed(.stanza),
                .begun: failed(.stanza), .inside: failed(.stanza), .deeper: failed(.stanza),
            ],
            otherwise: .ignore
        )
    }

    @Test("a stanza over a bound is rejected; a namespace error outside of stanzas fails")
    func reject() {
        let rejected: (Machine.StopAction, State) = (.stopParser, .rejecting(.memory))
        Self.check(
            { $0.reject(.memory) },
            [.begun: rejected, .inside: rejected, .deeper: rejected],
            otherwise: .ignore
        )
        func failed(_ position: XMLStreamPosition) -> (Machine.StopAction, State) {
            (.ignore, .failed(XMLStreamError(.notWellFormed, parserCode: 201), at: position))
        }
        Self.check(
            { $0.stanzaFailed(.memory, parserCode: 201) },
            [
                .begun: rejected, .inside: rejected, .deeper: rejected, .inHeader: failed(.header),
                .betweenStanzas: failed(.betweenStanzas), .replaying: failed(.stanza),
            ],
            otherwise: .ignore
        )
    }
}
