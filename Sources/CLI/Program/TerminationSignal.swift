import Dispatch
import Glibc

/// SIGINT and SIGTERM, for commands that only have to stop what they do.
enum TerminationSignal {
    /// Returns with the next of them, or when the task is cancelled.
    static func wait() async {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self)
        let sources = [SIGINT, SIGTERM].map { number in
            // The source sees the signal only where the process does not die of it.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.yield() }
            source.resume()
            return source
        }
        for await _ in signals { break }
        for source in sources { source.cancel() }
    }
}
