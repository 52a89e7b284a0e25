import Dispatcher
import Glibc
import IntegrationSupport
import Testing
import UpstreamKit

@testable import Handlers

/// Runs each part of a task on a thread of its own, which ends with it.
private final class ShortLivedThreads: TaskExecutor {
    private final class Part {
        let job: UnownedJob
        let executor: ShortLivedThreads
        init(_ job: UnownedJob, _ executor: ShortLivedThreads) { (self.job, self.executor) = (job, executor) }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let part = Unmanaged.passRetained(Part(UnownedJob(job), self))
        var thread = pthread_t()
        let number = pthread_create(
            &thread,
            nil,
            { context in
                guard let context else { return nil }
                let part = Unmanaged<Part>.fromOpaque(context).takeRetainedValue()
                part.job.runSynchronously(on: part.executor.asUnownedTaskExecutor())
                return nil
            },
            part.toOpaque()
        )
        precondition(number == 0)
        pthread_detach(thread)
    }
}

@Suite struct ExecThreadTests {
    /// The system kills a program with the thread that started it, and Swift's own end when they have had nothing to do.
    @Test("a program outlives the thread on which the first message came")
    func outlivesTheCaller() async {
        let script = """
            import sys, json
            for word, line in zip(["first", "second", "third"], sys.stdin):
                print(json.dumps({"outcome": "retry", "after": "1s", "reason": word})); sys.stdout.flush()
            """
        let handler = ExecHandler(
            name: "h",
            command: ["/usr/bin/env", "python3", "-c", script],
            mode: .stream,
            logger: .quiet
        )
        var words: [String] = []
        for _ in 0..<3 {
            let task = Task(executorPreference: ShortLivedThreads()) {
                let message = UpstreamMessage.sample(category: "a", data: "{}")
                let context = HandlerContext(handler: "h", deadline: .now + .seconds(30))
                return await HandlerVerdict.of(handler, message, context)
            }
            words.append(await task.value.failure?.group ?? "-")
        }
        await handler.shutdown()
        #expect(words == ["first", "second", "third"])
    }
}
