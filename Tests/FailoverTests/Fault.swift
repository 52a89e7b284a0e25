/// What goes wrong with the two servers while messages come in, and how it ends.
struct Fault: Sendable, CustomStringConvertible {
    /// One thing that happens, or that is waited for.
    enum Step: Sendable {
        /// The replication link breaks off, and stays so until ``restore``.
        case cutLink
        /// The replication link goes silent, and stays so until ``restore``.
        case stallLink
        /// `kill -9` of the standby, until ``restore``.
        case killStandby
        /// Waits until commits of both ways wait, in sessions that began to after the last fault.
        case commitsWait
        /// The peer resets one connection of each worker: what it left unacked comes again.
        case resetPeer
        /// `pg_cancel_backend` of every commit that waits.
        case cancel
        /// `pg_terminate_backend` of every commit that waits.
        case terminate
        /// `kill -9` of a backend whose commit waits: the primary starts again by itself.
        case killBackend
        /// `kill -9` of the primary, which is started again at once.
        case restartPrimary
        /// The ways to the primary, from the direct worker and into the pooler, break off for a moment.
        case breakClients
        /// The same ways go silent, and stay so until ``restore`` or the primary's end.
        case stallClients
        /// Others take every connection that the primary's pooler may have, and keep it until ``restore``.
        case fillPool
        /// Waits until the worker behind the pooler has given up a statement that nobody seems to work on.
        case statementsGivenUp
        /// More time passes than the worker gives to a statement.
        case passLimit
        /// `kill -9` of the primary.
        case killPrimary
        /// The same where a proxy before it goes on taking connections, and closes them.
        case killPrimaryBehindProxy
        /// `kill -9` of the primary of before, when another was promoted.
        case killOldPrimary
        /// `kill -STOP` of the primary: its sockets stay open and nobody answers.
        case stopPrimary
        /// The standby becomes the primary.
        case promote
        /// Links, ways and the standby are as they were.
        case restore
    }

    /// What it is called in messages and in the table.
    let name: String
    /// What happens before commits become possible again.
    let steps: [Step]
    /// What makes them possible.
    let resolution: Step
    /// What happens right behind.
    var aftermath: [Step] = []

    /// Whether the standby takes over.
    var failsOver: Bool { (steps + [resolution] + aftermath).contains { $0 == .promote } }

    var description: String { name }
}

extension Fault {
    /// Why commits can't be confirmed.
    private static let causes: [(name: String, step: Step)] = [
        ("link cut", .cutLink), ("standby killed", .killStandby), ("link silent", .stallLink),
    ]

    /// What happens to the commits that wait.
    private static let disturbances: [(name: String, steps: [Step])] = [
        ("", []),
        // Twice: the first commit is of a few messages, the one behind it of all that have collected.
        ("cancelled", [.cancel, .commitsWait, .cancel]),
        ("terminated", [.terminate, .commitsWait, .terminate]),
        ("backend killed", [.killBackend, .commitsWait, .killBackend]),
        ("primary restarted", [.restartPrimary]),
        ("clients cut", [.breakClients]),
        ("clients silent", [.stallClients]),
    ]

    private static let endings = [
        "restored", "primary killed, promoted", "primary stopped, promoted", "promoted first",
    ]

    /// Every disturbance with every ending, each of these pairs with one of the causes in turn; then what fits into no
    /// such row.
    ///
    /// A stopped primary takes ten seconds to be given up, whatever came before it: every second disturbance has to do.
    static let all: [Fault] = {
        var faults = [
            Fault(name: "primary killed, promoted", steps: [.killPrimary], resolution: .promote),
            Fault(
                name: "primary killed behind a proxy, promoted",
                steps: [.killPrimaryBehindProxy],
                resolution: .promote
            ),
            Fault(name: "primary stopped, promoted", steps: [.stopPrimary], resolution: .promote),
        ]
        for (row, disturbance) in disturbances.enumerated() {
            for ending in endings.indices where ending != 2 || row.isMultiple(of: 2) {
                // A standby that was killed can't be promoted.
                let possible = ending == 0 ? causes : causes.filter { $0.step != .killStandby }
                let cause = possible[(row + ending) % possible.count]
                faults.append(Fault(cause: cause, disturbance: disturbance, ending: ending))
            }
        }
        faults.append(
            Fault(
                name: "link cut, cancelled, terminated, backend killed, primary killed, promoted",
                steps: [
                    .cutLink, .commitsWait, .cancel, .commitsWait, .terminate, .commitsWait, .resetPeer, .killBackend,
                    .commitsWait, .killPrimary,
                ],
                resolution: .promote
            )
        )
        faults.append(
            Fault(
                name: "standby killed, cancelled, restored, primary killed, promoted",
                steps: [.killStandby, .commitsWait, .cancel, .commitsWait, .restore, .killPrimary],
                resolution: .promote
            )
        )
        faults.append(
            Fault(
                name: "link cut, pooler full, statements given up, primary killed, promoted",
                steps: [.cutLink, .commitsWait, .fillPool, .statementsGivenUp, .killPrimary],
                resolution: .promote
            )
        )
        faults.append(
            Fault(
                name: "link cut, the worker's own limit passed, primary killed, promoted",
                steps: [.cutLink, .commitsWait, .passLimit, .killPrimary],
                resolution: .promote
            )
        )
        return faults
    }()

    private init(cause: (name: String, step: Step), disturbance: (name: String, steps: [Step]), ending: Int) {
        name = [cause.name, disturbance.name, Self.endings[ending]].filter { !$0.isEmpty }.joined(separator: ", ")
        let isSilent = disturbance.steps.contains { $0 == .stallClients }
        let disturbed = disturbance.steps.isEmpty || isSilent ? disturbance.steps : disturbance.steps + [.commitsWait]
        let steps = [cause.step, .commitsWait] + disturbed + [.resetPeer]
        switch ending {
        case 0: (self.steps, resolution) = (steps, .restore)
        case 1: (self.steps, resolution) = (steps + [.killPrimary], .promote)
        case 2: (self.steps, resolution) = (steps + [.stopPrimary], .promote)
        default:
            // Whoever waits at the old primary waits on: it may yet be confirmed. Who can't reach it moves on at once.
            (self.steps, resolution, aftermath) =
                isSilent ? (steps, .promote, [.killOldPrimary]) : (steps + [.promote], .killOldPrimary, [])
        }
    }
}
