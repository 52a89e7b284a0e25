import Glibc
import MessageStore
package import Postgres
import Vocabulary

package struct ImportProblem: Error, Sendable, Equatable {
    package var line: Int
    /// The reason, without content of the message.
    package var message: String
}

/// Loads the output of `messages export --with-tokens` into a database, by the rules for received messages.
///
/// Idempotent: what is already stored counts as a duplicate, so a file may be loaded again, for example after an
/// interruption.
package struct ReplayImporter: Sendable {
    package struct Report: Sendable, Encodable {
        /// Lines read; empty ones are not counted.
        package var lines = 0
        package var stored = 0
        /// Messages that were already stored with the same content.
        package var duplicates = 0
        /// Messages that were already stored with other content; they go to `conflicts`.
        package var conflicts = 0
        package var refused = 0
        package var bytes: Int64 = 0
    }

    private let settings: PostgresSettings
    private let isDelivered: Bool
    private let isStrict: Bool
    private let isDryRun: Bool

    private typealias Listener = (ImportProblem) -> Void

    private static let batchLimit = 500
    private static let batchBytes = 4 << 20
    /// A stanza has 8 MiB at most; a line that holds it as a string can be a few times as long.
    private static let lineLimit = 24 << 20

    /// Sets up an import, which delivers new messages to subscribed handlers and stops at the first rejected line, or not.
    ///
    /// A dry run only checks the lines and compares them with what is stored. A message that is twice in the file counts
    /// as a duplicate there only if both lines are near each other.
    package init(_ settings: PostgresSettings, isDelivered: Bool, isStrict: Bool, isDryRun: Bool = false) {
        (self.settings, self.isDelivered, self.isStrict, self.isDryRun) = (settings, isDelivered, isStrict, isDryRun)
    }

    /// Reads and stores to the end; tells each rejected line, and from time to time the result so far.
    ///
    /// - Throws: ``ImportProblem`` for the first rejected line if that stops the import; `StoreError` if the database is
    ///   unavailable; ``ReplayError`` if the file can't be read.
    package func run(
        from descriptor: Int32,
        onProblem: (ImportProblem) -> Void = { _ in },
        onProgress: (Report) -> Void = { _ in }
    ) async throws -> Report {
        var state = State(now: .now)
        var lines = LineSplitter(limit: Self.lineLimit)
        var buffer = [UInt8](repeating: 0, count: 1 << 18)
        var isAtEnd = false
        while !isAtEnd {
            try Task.checkCancellation()
            let count = buffer.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw ReplayError(.invalid, "the file can't be read: \(String(cString: strerror(errno)))")
            }
            isAtEnd = count == 0
            state.report.bytes += Int64(count)
            for line in isAtEnd ? lines.finish() : lines.add(buffer[..<count]) {
                try await take(line, &state, onProblem)
            }
            onProgress(state.report)
        }
        try await flush(&state, onProblem)
        await state.store?.close()
        onProgress(state.report)
        return state.report
    }

    private struct State {
        var report = Report()
        var reader: ImportReader
        var batch: [IncomingMessage] = []
        var places: [Int] = []
        var size = 0
        var line = 0
        var store: MessageStore?
        /// How many senders the store knows.
        var senders = 0

        init(now: Timestamp) { reader = ImportReader(now: now) }
    }

    private func take(_ line: LineSplitter.Line, _ state: inout State, _ onProblem: Listener) async throws {
        state.line += 1
        guard !line.bytes.isEmpty || line.isTooLong else { return }
        state.report.lines += 1
        do throws(ImportReader.Refusal) {
            guard !line.isTooLong else { throw ImportReader.Refusal("the line is longer than 24 MiB") }
            let message = try line.bytes.withUnsafeBufferPointer { bytes throws(ImportReader.Refusal) in
                try state.reader.read(bytes)
            }
            state.batch.append(message)
            state.places.append(state.line)
            state.size += message.bytes.count
        } catch {
            return try await refuse(ImportProblem(line: state.line, message: error.message), &state, onProblem)
        }
        if state.batch.count >= Self.batchLimit || state.size >= Self.batchBytes {
            try await flush(&state, onProblem)
        }
    }

    private func refuse(_ problem: ImportProblem, _ state: inout State, _ onProblem: Listener) async throws {
        guard !isStrict else {
            await state.store?.close()
            throw problem
        }
        state.report.refused += 1
        onProblem(problem)
    }

    private func flush(_ state: inout State, _ onProblem: Listener) async throws {
        guard !state.batch.isEmpty else { return }
        let (batch, places) = (state.batch, state.places)
        state.batch.removeAll(keepingCapacity: true)
        state.places.removeAll(keepingCapacity: true)
        state.size = 0
        // A store's senders are fixed when it is made.
        if state.senders != state.reader.senders.count {
            await state.store?.close()
            state.store = nil
        }
        let store = state.store ?? MessageStore(settings, senders: state.reader.senders)
        state.store = store
        state.senders = state.reader.senders.count
        guard !isDryRun else { return count(try await store.compare(batch), &state) }
        do throws(StoreError) {
            count(try await store.load(batch, isDelivered: isDelivered), &state)
        } catch {
            guard error.kind == .refused else { throw error }
            // PostgreSQL rejects one of them: each is stored on its own, so that the others are not lost.
            for (message, place) in zip(batch, places) {
                do throws(StoreError) {
                    count(try await store.load([message], isDelivered: isDelivered), &state)
                } catch {
                    guard error.kind == .refused else { throw error }
                    try await refuse(ImportProblem(line: place, message: error.message), &state, onProblem)
                }
            }
        }
    }

    private func count(_ outcomes: [StoreOutcome], _ state: inout State) {
        for outcome in outcomes {
            switch outcome {
            case .stored: state.report.stored += 1
            case .duplicate: state.report.duplicates += 1
            case .conflict: state.report.conflicts += 1
            case .quarantined: state.report.refused += 1
            }
        }
    }
}
