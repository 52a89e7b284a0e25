import Glibc
import Vocabulary

/// The `process_…` metrics, from `/proc/self`.
///
/// A figure that can't be read is NaN: no metric disappears because a sandbox hides a file.
struct ProcessFigures: Sendable {
    private var values: [MetricName: Double] = [:]

    subscript(name: MetricName) -> Double { values[name] ?? .nan }

    static func now() -> ProcessFigures {
        var figures = ProcessFigures()
        if let text = read("/proc/self/stat") { figures.take(stat: text) }
        figures.values[.processOpenFiles] = entries(of: "/proc/self/fd").map(Double.init)
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            // The soft limit.
            figures.values[.processMostFiles] = limit.rlim_cur == rlim_t.max ? .infinity : Double(limit.rlim_cur)
        }
        return figures
    }

    /// Parses `/proc/self/stat`, whose fields proc(5) numbers from 1; the second, in parentheses, may hold anything.
    mutating func take(stat: String) {
        guard let name = stat.lastIndex(of: ")") else { return }
        let fields = stat[stat.index(after: name)...].split(whereSeparator: \.isWhitespace)
        func field(_ number: Int) -> Double { number - 3 < fields.count ? Double(fields[number - 3]) ?? .nan : .nan }
        let tick = Double(sysconf(Int32(_SC_CLK_TCK)))
        values[.processCPU] = (field(14) + field(15)) / tick
        values[.processThreads] = field(20)
        values[.processVirtualMemory] = field(23)
        values[.processMemory] = field(24) * Double(sysconf(Int32(_SC_PAGESIZE)))
        // Not from the boot time in /proc/stat, which `ProcSubset=pid` hides.
        let start = Self.seconds(CLOCK_REALTIME) - Self.seconds(CLOCK_BOOTTIME) + field(22) / tick
        // Rounded to hundredths, so that clocks read one after the other don't change the value.
        values[.processStart] = (start * 100).rounded() / 100
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        let time = SystemClock.time(clock)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    /// The number of a folder's entries without `.`, `..` and the descriptor that reads it.
    private static func entries(of path: String) -> Int? {
        guard let folder = opendir(path) else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return max(0, count - 3)
    }
}
