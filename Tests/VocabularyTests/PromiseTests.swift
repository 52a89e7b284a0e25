import Testing

@testable import Vocabulary

@Suite struct PromiseTests {
    @Test("the first value counts, before or after somebody waits for it", arguments: [false, true])
    func first(isAwaited: Bool) async {
        let promise = Promise<Int>()
        async let value = promise.value
        if !isAwaited { #expect(promise.fulfil(1)) }
        while isAwaited, !promise.isAwaited { await Task.yield() }
        if isAwaited { #expect(promise.fulfil(1)) }
        #expect(!promise.fulfil(2))
        #expect(promise.isFulfilled)
        #expect(await value == 1)
    }

    @Test("a cancelled task gets the other value, and what comes later is refused")
    func cancelled() async {
        let promise = Promise<Int?>()
        let task = Task { await promise.value(or: nil) }
        task.cancel()
        #expect(await task.value == nil)
        #expect(!promise.fulfil(1))
    }

    @Test("a value that has come is had by a cancelled task")
    func cancelledLate() async {
        let promise = Promise<Int?>()
        promise.fulfil(1)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return await promise.value(or: nil)
        }
        task.cancel()
        #expect(await task.value == 1)
    }

    @Test("the other value comes when the time is up")
    func late() async {
        #expect(await Promise<Int?>().value(or: nil, within: .milliseconds(1)) == nil)
        let promise = Promise<Int?>()
        promise.fulfil(1)
        #expect(await promise.value(or: nil, within: .zero) == 1)
    }

    @Test("without a limit on its patience, a wait goes on in a cancelled task")
    func patient() async {
        let promise = Promise<Void>()
        let task = Task { await promise.wait() }
        task.cancel()
        while !promise.isAwaited { await Task.yield() }
        promise.fulfil()
        await task.value
    }

    @Test("fulfilled by many threads, it has one value")
    func race() async {
        for _ in 0..<200 {
            let promise = Promise<Int>()
            let firsts = await withTaskGroup(of: Bool.self) { group in
                for number in 0..<4 { group.addTask { promise.fulfil(number) } }
                _ = await promise.value
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(firsts == 1)
        }
    }
}
