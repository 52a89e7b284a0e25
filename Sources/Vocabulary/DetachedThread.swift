import Glibc

/// A thread for calls that block for long.
package enum DetachedThread {
    private final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts the thread with this many bytes of stack, nil for the system's default; false, with the reason in `errno`,
    /// if the system has none to give.
    package static func run(stack: Int? = 256 * 1024, _ body: @escaping @Sendable () -> Void) -> Bool {
        // Retained for the thread, which releases it; on failure we do.
        let box = Unmanaged.passRetained(Box(body))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
        if let stack { pthread_attr_setstacksize(&attributes, stack) }
        var thread = pthread_t()
        let number = pthread_create(
            &thread,
            &attributes,
            { context in
                guard let context else { return nil }
                Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
                return nil
            },
            box.toOpaque()
        )
        guard number != 0 else { return true }
        box.release()
        errno = number
        return false
    }
}
