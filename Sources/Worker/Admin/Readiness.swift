import Synchronization

/// A condition of readiness.
package struct ReadinessCheck: Sendable {
    package enum State: Sendable, Equatable {
        case ready
        /// The condition does not hold, and why.
        case notReady(String)
        /// The condition holds, with a remark.
        case remark(String)

        package var reason: String? {
            guard case .notReady(let reason) = self else { return nil }
            return reason
        }
    }

    /// The check's name: letters, digits and hyphens.
    package var name: String
    /// The state from what is already known; never blocks.
    package var state: @Sendable () -> State
}

/// Whether the worker accepts messages (`/readyz`).
package final class Readiness: Sendable {
    package struct Report: Sendable, Equatable {
        package var isReady: Bool
        /// One line per check, in order.
        package var lines: [String]
    }

    private let checks: [ReadinessCheck]
    private let draining = Atomic<Bool>(false)

    package init(_ checks: [ReadinessCheck]) {
        self.checks = checks
    }

    /// Begins shutdown: the worker will not be ready again.
    package func drain() {
        draining.store(true, ordering: .relaxed)
    }

    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    package func report() -> Report {
        let isDraining = isDraining
        let own = ReadinessCheck(name: "draining") { isDraining ? .notReady("shutting down") : .ready }
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
