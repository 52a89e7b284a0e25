import Dispatcher
import Postgres
import Vocabulary

extension PostgresConnection {
    /// What a function takes; a message, if nothing else can be found out.
    func form(of function: SQLFunction) throws(PostgresError) -> FunctionForm {
        do throws(PostgresError) {
            let forms = try run(FunctionStatements.form(of: function)).map { row throws(PostgresError) in
                try row.next(String.self)
            }
            return forms.first.flatMap { FunctionForm(rawValue: $0) } ?? .message
        } catch {
            guard isOpen, error.failureClass != .cancelled else { throw error }
            return .message
        }
    }

    /// Runs the attempts of a call; an error means that none could begin.
    func attempt(_ call: FunctionCall, _ form: FunctionForm) throws(PostgresError) -> CallPlan {
        var plan = CallPlan(count: call.deliveries.count)
        while let places = plan.next() {
            let some = places.map { call.deliveries[$0] }
            do throws(PostgresError) {
                if some.count == 1 {
                    plan.ended(.ended([try attempt(some[0], call, form)]))
                } else {
                    plan.ended(try attempt(together: some, call, form))
                }
            } catch {
                guard plan.hasAny else { throw error }
                plan.ended(.stopped)
            }
        }
        return plan
    }

    /// Calls the function with several messages, deletes the deliveries of those that are done, commits.
    private func attempt(
        together some: [FunctionStatements.Delivery],
        _ call: FunctionCall,
        _ form: FunctionForm
    ) throws(PostgresError) -> CallPlan.Outcome {
        let start = ContinuousClock.now
        var hasBegun = false
        var held: Set<LeaseReference>?
        do throws(PostgresError) {
            let ends = try transaction(thenResetting: true) { connection throws(PostgresError) in
                // Whoever is slow among them gets the other half of the time.
                try connection.limitStatements(milliseconds: max(1, call.milliseconds / 2), "")
                hasBegun = true
                let ends = try connection.callFunction(call, form, some, since: start)
                let isRecorded = call.recording.isOn
                try connection.script(Self.afterCall(isRecorded: isRecorded))
                let done = zip(some, ends).filter { if case .settled = $1 { true } else { false } }.map(\.0)
                let leases = try connection.complete(done, call, isRecorded: isRecorded, since: start)
                guard leases.count == done.count else {
                    held = leases.union(zip(some, ends).compactMap { if case .settled = $1 { nil } else { $0.lease } })
                    throw PostgresError(.other, "leases have passed on")
                }
                return ends
            }
            return .ended(ends)
        } catch {
            if let held { return .held(some.filter { held.contains($0.lease) }.map(\.place)) }
            guard hasBegun, !Task.isCancelled else { throw error }
            // Perhaps because of one of them; or the commit's outcome is unknown.
            guard isOpen else { return .stopped }
            return [.timeout, .cancelled].contains(error.failureClass) ? .stopped : .failed
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

    /// Checks what the function left to the commit, then has rows found by key alone, in the order of the keys.
    ///
    /// The session has no such settings: the function's own statements would be planned under them.
    private static func afterCall(isRecorded: Bool) -> String {
        let plans = PostgresSettings.plansByIndex.map { "; SET LOCAL \($0) = \($1)" }.joined()
        return "SET CONSTRAINTS ALL IMMEDIATE" + plans + "; SAVEPOINT completion" + lockLimit(isRecorded: isRecorded)
    }

    /// Waits at most a second for a locked history.
    private static func lockLimit(isRecorded: Bool) -> String {
        isRecorded ? "; SET LOCAL lock_timeout = 1000" : ""
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
        guard form == .answers || form == .answerArray else { return some.map { _ in .settled } }
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

    /// Deletes deliveries, with their history if that can be written; returns the leases that were still ours.
    private func complete(
        _ some: [FunctionStatements.Delivery],
        _ call: FunctionCall,
        isRecorded: Bool,
        since start: ContinuousClock.Instant
    ) throws(PostgresError) -> Set<LeaseReference> {
        func leases(
            _ statement: PreparedStatement<FunctionStatements.Values>
        ) throws(PostgresError) -> Set<LeaseReference> {
            let values = call.values(some, since: start)
            let rows: PostgresResult
            do throws(PostgresError) {
                rows = try run(statement, values)
            } catch  where error.sqlState == "26000" && isOpen {
                // The function has deallocated all that was prepared.
                try script("ROLLBACK TO SAVEPOINT completion" + Self.lockLimit(isRecorded: isRecorded))
                forgetPrepared()
                rows = try run(statement, values)
            }
            return Set(
                try rows.map { row throws(PostgresError) in
                    LeaseReference(messageKey: try row.next(), token: try row.next())
                }
            )
        }
        return try call.recording.write(isWanted: isRecorded) { () throws(PostgresError) in
            try leases(FunctionStatements.completeRecorded)
        } otherwise: { () throws(PostgresError) in
            try leases(FunctionStatements.complete)
        } refusal: { error throws(PostgresError) in
            guard error.mayBeOfHistory, isOpen else { return nil }
            try script("ROLLBACK TO SAVEPOINT completion")
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
            try run(FunctionStatements.call(call.function, form).explained, values)
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            return error
        }
    }
}
