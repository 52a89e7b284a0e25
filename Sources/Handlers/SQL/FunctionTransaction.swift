import Dispatcher
import Postgres
import Vocabulary

/// How the messages of a call ended, as far as this is known.
struct FunctionEnds: Sendable {
    private var ends: [AttemptEnd?]
    private var areTogether = true
    /// How many were at fault themselves.
    private(set) var failures = 0
    /// The end of all that follow: something stands in their way as well.
    private(set) var rest: AttemptEnd?

    init(_ call: FunctionCall) { ends = Array(repeating: nil, count: call.deliveries.count) }

    var hasAny: Bool { ends.contains { $0 != nil } }

    /// Whether the function itself could be called.
    var couldBegin: Bool {
        if case .verdict(.unavailable) = rest { false } else { true }
    }

    var end: CallEnd { CallEnd(ends.map { $0 ?? rest ?? .verdict(.cancelled) }, areTogether: areTogether) }

    mutating func note(_ end: AttemptEnd, _ delivery: FunctionStatements.Delivery) {
        ends[delivery.place] = end
        guard case .verdict(let verdict) = end else { return }
        failures += 1
        if case .unavailable = verdict { rest = end }
    }

    mutating func stop(_ end: AttemptEnd) { rest = rest ?? end }

    mutating func tookApart() { areTogether = false }
}

extension PostgresConnection {
    /// What a function takes; a message, if nothing else can be found out.
    func form(of function: SQLFunction) throws(PostgresError) -> FunctionForm {
        do throws(PostgresError) {
            let answers = try run(FunctionStatements.form(of: function)).map { row throws(PostgresError) in
                try row.next(Bool.self)
            }
            return answers.first.map { $0 ? .answers : .messages } ?? .message
        } catch {
            guard isOpen, error.failureClass != .cancelled else { throw error }
            return .message
        }
    }

    /// Runs the attempts of a call; an error means that none could begin.
    func attempt(_ call: FunctionCall, _ form: FunctionForm) throws(PostgresError) -> FunctionEnds {
        var ends = FunctionEnds(call)
        try take(call.deliveries[...], call, form, &ends)
        return ends
    }

    /// Takes some deliveries in one transaction; if that fails, in halves, until those at fault are alone.
    private func take(
        _ some: ArraySlice<FunctionStatements.Delivery>,
        _ call: FunctionCall,
        _ form: FunctionForm,
        _ ends: inout FunctionEnds
    ) throws(PostgresError) {
        guard ends.rest == nil, let first = some.first else { return }
        do throws(PostgresError) {
            if some.count == 1 { return ends.note(try attempt(first, call, form), first) }
            switch try attempt(together: Array(some), call, form) {
            case .ended(let all):
                for (delivery, end) in zip(some, all) { ends.note(end, delivery) }
                return
            case .held(let keys):
                for delivery in some where !keys.contains(delivery.key) { ends.note(.lost, delivery) }
                return try take(some.filter { keys.contains($0.key) }[...], call, form, &ends)
            case .overdue:
                // Each has its whole time, alone, once it is its turn again.
                ends.tookApart()
                return ends.stop(.verdict(.cancelled))
            case .failed: break
            }
        } catch {
            guard ends.hasAny else { throw error }
            return ends.stop(FunctionCall.end(of: error))
        }
        let known = ends.failures
        let middle = some.startIndex + some.count / 2
        try take(some[..<middle], call, form, &ends)
        if !isOpen { ends.stop(.verdict(.cancelled)) }
        try take(some[middle...], call, form, &ends)
        if ends.failures == known { ends.tookApart() }
    }

    private enum TogetherEnd {
        /// Committed, with the end of each.
        case ended([AttemptEnd])
        /// Rolled back: only these were still ours.
        case held(Set<Digest128>)
        /// Rolled back: it took too long.
        case overdue
        /// Rolled back, for a reason that may lie in one of them.
        case failed
    }

    /// Calls the function with several messages, deletes the deliveries of those that are done, commits.
    private func attempt(
        together some: [FunctionStatements.Delivery],
        _ call: FunctionCall,
        _ form: FunctionForm
    ) throws(PostgresError) -> TogetherEnd {
        let start = ContinuousClock.now
        var hasBegun = false
        var held: Set<Digest128>?
        do throws(PostgresError) {
            let ends = try transaction(thenResetting: true) { connection throws(PostgresError) in
                // Whoever is slow among them gets the other half of the time.
                try connection.limitStatements(milliseconds: max(1, call.milliseconds / 2), "")
                hasBegun = true
                let ends = try connection.callFunction(call, form, some, since: start)
                let isRecorded = call.recording.isOn
                try connection.script(Self.afterCall(isRecorded: isRecorded))
                let done = zip(some, ends).filter { if case .settled = $1 { true } else { false } }.map(\.0)
                let keys = try connection.complete(done, call, isRecorded: isRecorded, since: start)
                guard keys.count == done.count else {
                    held = keys.union(zip(some, ends).compactMap { if case .settled = $1 { nil } else { $0.key } })
                    throw PostgresError(.other, "leases have passed on")
                }
                return ends
            }
            return .ended(ends)
        } catch {
            if let held { return .held(held) }
            guard hasBegun, !Task.isCancelled else { throw error }
            // The session is gone, perhaps because of one of them, or the outcome of the commit is unknown.
            guard isOpen else {
                return .ended(some.map { _ in .verdict(.interrupted(FunctionCall.failure(of: error))) })
            }
            return [.timeout, .cancelled].contains(error.failureClass) ? .overdue : .failed
        }
    }

    /// Calls the function with one message, deletes the delivery, commits.
    private func attempt(
        _ delivery: FunctionStatements.Delivery,
        _ call: FunctionCall,
        _ form: FunctionForm
    ) throws(PostgresError) -> AttemptEnd {
        let start = ContinuousClock.now
        var end = AttemptEnd.settled
        var hasBegun = false
        do throws(PostgresError) {
            // The function's session settings must not reach the next message, or a pooler's other clients.
            try transaction(thenResetting: true) { connection throws(PostgresError) in
                try connection.limitStatements(milliseconds: call.milliseconds, "SAVEPOINT handler")
                hasBegun = true
                let isRecorded = call.recording.isOn
                end = try connection.callInSavepoint(delivery, call, form, isRecorded: isRecorded, since: start)
                guard case .settled = end else { return }
                guard try !connection.complete([delivery], call, isRecorded: isRecorded, since: start).isEmpty else {
                    end = .lost
                    throw PostgresError(.other, "the lease has passed on")
                }
            }
        } catch {
            if case .lost = end { return .lost }
            if error.failureClass == .cancelled, isOpen, !Task.isCancelled { return .verdict(.cancelled) }
            // On a server that takes no writes, no call could succeed.
            guard hasBegun, !Task.isCancelled, error.failureClass != .readOnly else { throw error }
            // The completion or the commit failed because of what the function did to the session or left to the
            // commit; or the session is gone. If the commit went through but its reply was lost, the delivery's row is
            // gone, and this verdict changes nothing.
            let failure = FunctionCall.failure(of: error)
            return .verdict(isOpen ? .retry(after: nil, failure) : .interrupted(failure))
        }
        return end
    }

    /// Checks what the function left to the commit; waits at most a second for a locked history.
    private static func afterCall(isRecorded: Bool) -> String {
        "SET CONSTRAINTS ALL IMMEDIATE" + (isRecorded ? "; SAVEPOINT history; SET LOCAL lock_timeout = 1000" : "")
    }

    /// Calls the function, and reads its answers.
    private func callFunction(
        _ call: FunctionCall,
        _ form: FunctionForm,
        _ some: [FunctionStatements.Delivery],
        since start: ContinuousClock.Instant
    ) throws(PostgresError) -> [AttemptEnd] {
        let rows = try run(FunctionStatements.call(call.function, form), call.values(some, since: start))
        let isFound = rows.count > 0 && (form != .message || rows.count == some.count)
        guard isFound else {
            guard some.count == 1 else { throw PostgresError(.other, "a message is missing") }
            return [.verdict(.reject(.missing))]
        }
        guard case .answers = form else { return some.map { _ in .settled } }
        let answers = try rows.map { row throws(PostgresError) in
            (try row.next(Int64?.self), try row.next(String?.self))
        }
        guard answers.count == some.count, answers.allSatisfy({ $0.0 != nil }) else {
            let count = answers.count { $0.0 != nil }
            throw PostgresError(.other, "\(call.function) returned \(count) answers for \(some.count) messages")
        }
        return answers.map { _, answer in
            answer.flatMap { $0.isEmpty ? nil : .verdict(FunctionCall.verdict(of: $0)) } ?? .settled
        }
    }

    /// Deletes deliveries, with their history if that can be written; returns the keys of those that were still ours.
    private func complete(
        _ some: [FunctionStatements.Delivery],
        _ call: FunctionCall,
        isRecorded: Bool,
        since start: ContinuousClock.Instant
    ) throws(PostgresError) -> Set<Digest128> {
        func keys(_ statement: PreparedStatement<FunctionStatements.Values>) throws(PostgresError) -> Set<Digest128> {
            let rows = try run(statement, call.values(some, since: start))
            return Set(try rows.map { row throws(PostgresError) in try row.next() })
        }
        return try call.recording.write(isWanted: isRecorded) { () throws(PostgresError) in
            try keys(FunctionStatements.completeRecorded)
        } otherwise: { () throws(PostgresError) in
            try keys(FunctionStatements.complete)
        } refusal: { error throws(PostgresError) in
            guard error.mayBeOfHistory, isOpen else { return nil }
            try script("ROLLBACK TO SAVEPOINT history")
            return StoreError(
                kind: .unavailable,
                sqlState: error.sqlState,
                message: error.message,
                failureClass: error.failureClass
            )
        }
    }

    /// Calls the function so that its failure leaves the transaction usable; settled once deferred constraints hold too.
    private func callInSavepoint(
        _ delivery: FunctionStatements.Delivery,
        _ call: FunctionCall,
        _ form: FunctionForm,
        isRecorded: Bool,
        since start: ContinuousClock.Instant
    ) throws(PostgresError) -> AttemptEnd {
        do throws(PostgresError) {
            let end = try callFunction(call, form, [delivery], since: start)[0]
            // What an array function did for a message that it refuses stays, as it does among others.
            try script(Self.afterCall(isRecorded: isRecorded))
            return end
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            if error.failureClass == .readOnly, try run(FunctionStatements.isReadOnly, ()).value(Bool.self) {
                throw error
            }
            if let obstacle = try obstacle(to: call, form, call.values([delivery], since: start)) {
                return .verdict(.unavailable(after: .seconds(30), FunctionCall.failure(of: obstacle)))
            }
            return .verdict(FunctionCall.verdict(of: error))
        }
    }

    /// Why the call can't even begin: the function is missing, or the right to call it or to look the message up.
    ///
    /// EXPLAIN resolves the function and checks rights as the call does, and calls nothing.
    private func obstacle(
        to call: FunctionCall,
        _ form: FunctionForm,
        _ values: FunctionStatements.Values
    ) throws(PostgresError) -> PostgresError? {
        do throws(PostgresError) {
            try run(FunctionStatements.find, values)
            try run(FunctionStatements.explain(call.function, form), values)
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            return error
        }
    }
}
