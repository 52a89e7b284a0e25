import Testing

@testable import Replaying

@Suite("Replays: states")
struct ReplayStateTests {
    private enum Kind {
        case become(ReplayState)
        case restart
        case stay
        case refuse
    }

    private static func kind(_ transition: ReplayTransition) -> String {
        switch transition {
        case .become(let state): state.rawValue
        case .restart: "restart"
        case .stay: "stay"
        case .refuse: "refuse"
        }
    }

    /// By state, in the order of `ReplayEvent`: start, startAgain, pause, resume, cancel.
    static let table: [(ReplayState, [String])] = [
        (.planned, ["running", "running", "refuse", "refuse", "cancelled"]),
        (.running, ["stay", "refuse", "paused", "stay", "cancelled"]),
        (.paused, ["running", "refuse", "stay", "running", "cancelled"]),
        (.finished, ["stay", "restart", "refuse", "refuse", "refuse"]),
        (.cancelled, ["refuse", "refuse", "refuse", "refuse", "stay"]),
        (.failed, ["running", "restart", "refuse", "running", "cancelled"]),
    ]

    @Test("every state answers every event as the table says")
    func transitions() {
        #expect(Self.table.map(\.0) == ReplayState.allCases)
        for (state, row) in Self.table {
            #expect(row.count == ReplayEvent.allCases.count)
            for (event, wanted) in zip(ReplayEvent.allCases, row) {
                #expect(Self.kind(state.transition(on: event)) == wanted, "\(state) \(event)")
            }
        }
    }

    @Test("nothing is sent twice unless requested")
    func endings() { #expect(ReplayState.finished.transition(on: .start) == .stay) }
}
