import NIOCore

/// What the application has written and OpenSSL has not taken yet.
struct PendingWrites {
    private struct Entry {
        var buffer: ByteBuffer
        var promise: EventLoopPromise<Void>?
    }

    /// What became of an attempt to encrypt it.
    enum Outcome {
        /// Everything is encrypted.
        case drained
        /// The limit on output is reached.
        case limited
        /// OpenSSL takes nothing before the peer has sent more.
        case blocked
        /// The connection is broken.
        case failed(TLSError)
    }

    private var entries: [Entry] = []
    /// The first entry not done with; those before it are done and hold nothing.
    private var head = 0
    /// The plaintext waiting.
    private(set) var bytes = 0
    /// Whether the application has flushed and the flush is not carried out.
    var wantsFlush = false

    /// Whether nothing waits.
    var isEmpty: Bool {
        self.head == self.entries.count
    }

    /// Adds a write.
    mutating func append(_ buffer: ByteBuffer, _ promise: EventLoopPromise<Void>?) {
        self.bytes += buffer.readableBytes
        self.entries.append(Entry(buffer: buffer, promise: promise))
    }

    /// Encrypts until nothing waits, or until `limit` bytes of ciphertext lie in the connection.
    ///
    /// The promises of the writes that are taken whole are appended to `done`; they belong to the output's fate.
    mutating func encrypt(
        with connection: TLSConnection,
        limit: Int,
        done: inout [EventLoopPromise<Void>]
    ) -> Outcome {
        connection.reserveOutput(plaintext: min(self.bytes, limit))
        while self.dropFinished(&done) {
            if connection.outputBytes >= limit {
                return .limited
            }
            let step =
                self.entries[self.head].buffer.readableBytes >= TLSConnection.maximumRecord
                    || self.head + 1 == self.entries.count
                ? self.entries[self.head].buffer.withUnsafeReadableBytes(connection.write)
                : self.writeGathered(with: connection)
            switch step {
            case .wrote(let count): self.consume(count)
            case .blocked: return .blocked
            case .failed(let error): return .failed(error)
            }
        }
        return .drained
    }

    /// Encrypts small writes together as one record.
    private func writeGathered(with connection: TLSConnection) -> TLSConnection.WriteStep {
        withUnsafeTemporaryAllocation(byteCount: min(self.bytes, TLSConnection.maximumRecord), alignment: 1) { record in
            var filled = 0
            for entry in self.entries[self.head...] where filled < record.count {
                entry.buffer.withUnsafeReadableBytes { bytes in
                    let part = bytes.prefix(record.count - filled)
                    UnsafeMutableRawBufferPointer(rebasing: record[filled...]).copyBytes(from: part)
                    filled += part.count
                }
            }
            return connection.write(UnsafeRawBufferPointer(rebasing: record[..<filled]))
        }
    }

    /// Moves past what OpenSSL has taken.
    private mutating func consume(_ count: Int) {
        self.bytes -= count
        var left = count
        var index = self.head
        while left > 0, index < self.entries.count {
            let part = min(left, self.entries[index].buffer.readableBytes)
            self.entries[index].buffer.moveReaderIndex(forwardBy: part)
            left -= part
            index += 1
        }
    }

    /// Lets go of entries that are taken whole; whether any is left.
    private mutating func dropFinished(_ done: inout [EventLoopPromise<Void>]) -> Bool {
        while self.head < self.entries.count, self.entries[self.head].buffer.readableBytes == 0 {
            if let promise = self.entries[self.head].promise {
                done.append(promise)
            }
            self.entries[self.head] = Entry(buffer: ByteBuffer(), promise: nil)
            self.head += 1
        }
        guard self.head == self.entries.count else { return true }
        // A short list is kept for the next writes; a long one would weigh on an idle connection.
        self.entries.removeAll(keepingCapacity: self.entries.capacity <= 16)
        self.head = 0
        return false
    }

    /// Takes everything out and returns the promises, to be failed by the caller.
    mutating func removeAll() -> [EventLoopPromise<Void>] {
        let promises = self.entries[self.head...].compactMap(\.promise)
        self = PendingWrites()
        return promises
    }
}
