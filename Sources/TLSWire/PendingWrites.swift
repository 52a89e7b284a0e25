import NIOCore

/// The application's writes that OpenSSL has not taken yet.
struct PendingWrites {
    enum Outcome {
        case drained, limited
        /// OpenSSL takes nothing until the peer has sent more.
        case blocked
        case failed(TLSError)
    }

    private var entries = CircularBuffer<(buffer: ByteBuffer, promise: EventLoopPromise<Void>?)>(initialCapacity: 1)
    private(set) var bytes = 0
    /// Whether the application has asked for a flush that is not done yet.
    var wantsFlush = false

    mutating func append(_ buffer: ByteBuffer, _ promise: EventLoopPromise<Void>?) {
        self.bytes += buffer.readableBytes
        self.entries.append((buffer, promise))
    }

    /// Encrypts until nothing waits, or until the connection holds `limit` bytes of ciphertext.
    ///
    /// The promises of completely taken writes are appended to `done`.
    mutating func encrypt(with connection: TLSConnection, limit: Int, done: inout [EventLoopPromise<Void>]) -> Outcome {
        connection.reserveOutput(plaintext: min(self.bytes, limit))
        while self.dropFinished(&done) {
            if connection.outputBytes >= limit { return .limited }
            let first = self.entries[self.entries.startIndex].buffer
            let step =
                first.readableBytes >= TLSConnection.maximumRecord || self.entries.count == 1
                ? first.withUnsafeReadableBytes(connection.write) : self.writeGathered(with: connection)
            switch step {
            case .wrote(let count): self.consume(count)
            case .blocked: return .blocked
            case .failed(let error): return .failed(error)
            }
        }
        return .drained
    }

    private func writeGathered(with connection: TLSConnection) -> TLSConnection.WriteStep {
        withUnsafeTemporaryAllocation(byteCount: min(self.bytes, TLSConnection.maximumRecord), alignment: 1) { record in
            var filled = 0
            for entry in self.entries where filled < record.count {
                entry.buffer.withUnsafeReadableBytes { bytes in
                    let part = bytes.prefix(record.count - filled)
                    UnsafeMutableRawBufferPointer(rebasing: record[filled...]).copyBytes(from: part)
                    filled += part.count
                }
            }
            return connection.write(UnsafeRawBufferPointer(rebasing: record[..<filled]))
        }
    }

    private mutating func consume(_ count: Int) {
        self.bytes -= count
        var left = count
        // Not over `indices`, which hold the buffer and make each change copy it.
        var index = self.entries.startIndex
        while left > 0, index < self.entries.endIndex {
            let part = min(left, self.entries[index].buffer.readableBytes)
            self.entries.modify(index) { $0.buffer.moveReaderIndex(forwardBy: part) }
            left -= part
            index = self.entries.index(after: index)
        }
    }

    private mutating func dropFinished(_ done: inout [EventLoopPromise<Void>]) -> Bool {
        while let first = self.entries.first, first.buffer.readableBytes == 0 {
            if let promise = self.entries.removeFirst().promise { done.append(promise) }
        }
        guard self.entries.isEmpty else { return true }
        // A short list is kept for the next writes; a long one would weigh on an idle connection.
        self.entries.removeAll(keepingCapacity: self.entries.capacity <= 16)
        return false
    }

    mutating func removeAll() -> [EventLoopPromise<Void>] {
        let promises = self.entries.compactMap { $0.promise }
        self = PendingWrites()
        return promises
    }
}
