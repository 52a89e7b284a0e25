import Glibc

/// How many files, sockets and pipes the process may have open.
enum DescriptorLimit {
    /// Enough for any worker; the programs of handlers inherit it, and some close one after the other up to it.
    private static let most: rlim_t = 1 << 16

    /// Raises the limit as far as the process may: the usual one of 1,024 is for programs that call select(2), and a
    /// sender alone may have as many connections.
    static func raise() {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return }
        limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, most))
        // If refused, as in a sandbox, it stays.
        setrlimit(resource, &limit)
    }
}
