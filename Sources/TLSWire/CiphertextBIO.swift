import COpenSSL
import NIOCore

/// The transport as OpenSSL sees it: reads take from bytes lent for one call, writes collect in a buffer.
///
/// OpenSSL's own memory BIO copies everything once more and never shrinks. The BIO holds an unretained pointer to this
/// object; the ``TLSConnection`` that owns both frees the BIO first.
final class CiphertextBIO {
    /// OpenSSL's output since ``takeOutput()``.
    private(set) var output = ByteBuffer()
    /// The lent bytes that OpenSSL has not read yet; empty outside of ``lend(_:_:)``.
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The refused certificate, if any.
    var verificationFailure: VerificationFailure?
    /// The names accepted in the certificate besides DNS names, if any.
    var xmppNames: XMPPCertificateNames?

    /// A BIO over this object; the caller owns it.
    func makeBIO() throws(TLSError) -> OpaquePointer {
        guard let method = Self.method, let bio = BIO_new(method) else { throw .internalFailure("a BIO") }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        return bio
    }

    /// Lends ciphertext to OpenSSL, which reads all of it unless the connection has failed or ended.
    func lend<Result>(_ ciphertext: ByteBuffer, _ body: () -> Result) -> Result {
        ciphertext.withUnsafeReadableBytes { bytes in
            self.input = bytes
            defer { self.input = UnsafeRawBufferPointer(start: nil, count: 0) }
            return body()
        }
    }

    func reserveOutput(_ bytes: Int) { self.output.reserveCapacity(minimumWritableBytes: bytes) }

    /// Takes OpenSSL's output and its memory; nil if there is none.
    func takeOutput() -> ByteBuffer? {
        guard self.output.readableBytes > 0 else { return nil }
        let output = self.output
        self.output = ByteBuffer()
        return output
    }

    private func read(into target: UnsafeMutableRawPointer, atMost wanted: Int) -> Int {
        let count = min(wanted, self.input.count)
        guard count > 0, let base = self.input.baseAddress else { return 0 }
        target.copyMemory(from: base, byteCount: count)
        self.input = UnsafeRawBufferPointer(rebasing: self.input[count...])
        return count
    }

    /// The type of BIO, made once for the process and never freed.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ByteBuffer") else { return nil }
        BIO_meth_set_read_ex(method) { bio, target, wanted, read in
            upstream_bio_clear_retry(bio)
            guard let data = BIO_get_data(bio), let target, let read else { return 0 }
            let count = Unmanaged<CiphertextBIO>.fromOpaque(data)._withUnsafeGuaranteedRef {
                $0.read(into: target, atMost: wanted)
            }
            read.pointee = count
            if count == 0 { upstream_bio_want_read(bio) }
            return count > 0 ? 1 : 0
        }
        BIO_meth_set_write_ex(method) { bio, source, count, written in
            upstream_bio_clear_retry(bio)
            guard let data = BIO_get_data(bio), let source, let written else { return 0 }
            Unmanaged<CiphertextBIO>.fromOpaque(data)._withUnsafeGuaranteedRef {
                _ = $0.output.writeBytes(UnsafeRawBufferPointer(start: source, count: count))
            }
            written.pointee = count
            return 1
        }
        BIO_meth_set_ctrl(method) { _, command, _, _ in
            // Writes go straight to the buffer, so there is nothing to flush. Nothing else is supported.
            command == BIO_CTRL_FLUSH ? 1 : 0
        }
        return method
    }()
}
