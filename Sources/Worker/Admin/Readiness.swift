import Synchronization

/// Something that must hold before the worker is ready.
package struct ReadinessCheck: Sendable {
    /// What a check found.
    package enum State: Sendable, Equatable {
        /// It holds.
        case ready
        /// It doesn't; why, for people.
        case notReady(String)
        /// It holds, and there is something to be told.
        case remark(String)

        /// Why it doesn't; nil where it does.
        package var reason: String? {
            guard case .notReady(let reason) = self else { return nil }
            return reason
        }
    }

    /// The check's name: letters, digits and hyphens.
    package var name: String
    /// Reports the state from what is already known; never blocks.
    package var state: @Sendable () -> State

    package init(_ name: String, _ state: @escaping @Sendable () -> State) {
        self.name = name
        self.state = state
    }
}

/// Whether the worker takes messages (`/readyz`).
package final class Readiness: Sendable {
    /// What all checks found at one moment.
    package struct Report: Sendable, Equatable {
        /// Whether all hold.
        package var isReady: Bool
        /// A line for each check, in their order.
        package var lines: [String]
    }

    private let checks: [ReadinessCheck]
    private let draining = Atomic<Bool>(false)

    /// - Parameter checks: What must hold, in addition to not draining.
    package init(_ checks: [ReadinessCheck]) {
        self.checks = checks
    }

    /// Begins shutdown: the worker will not be ready again.
    package func drain() {
        draining.store(true, ordering: .relaxed)
    }

    /// Whether shutdown has begun.
    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// What all checks find now.
    package func report() -> Report {
        let isDraining = isDraining
        let own = ReadinessCheck("draining") { isDraining ? .notReady("shutting down") : .ready }
        var report = Report(isReady: true, lines: [])
        for check in checks + [own] {
            switch check.state() {
            case .ready: report.lines.append("[+] \(check.name) ok")
            case .remark(let text): report.lines.append("[+] \(check.name) ok: \(text)")
            case .notReady(let reason):
                report.isReady = false
                report.lines.append("[-] \(check.name) failed: \(reason)")
            }
        }
        return report
    }
}
