import Foundation
import Glibc

/// Resources used by processes, from /proc.
package struct ProcessUsage {
    /// CPU seconds in user and kernel mode; exact to the kernel's tick, mostly 10 ms.
    package var cpu = 0.0

    private struct Row {
        var parent: Int32
        var own: Double
        var reaped: Double
    }

    package static func process(_ id: Int32) -> ProcessUsage {
        ProcessUsage(cpu: row(id)?.own ?? 0)
    }

    /// The usage of a process and its children, including those that have ended and been waited for.
    package static func family(_ id: Int32) -> ProcessUsage {
        guard let first = row(id) else { return ProcessUsage() }
        var cpu = first.own + first.reaped
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        for name in names {
            guard let child = Int32(name), child != id, let row = row(child), row.parent == id else { continue }
            cpu += row.own
        }
        return ProcessUsage(cpu: cpu)
    }

    /// Bytes of resident memory: now (`VmRSS`) and at most (`VmHWM`).
    package static func memory(_ id: Int32) -> (now: Int, most: Int) {
        let text = (try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8)) ?? ""
        func kilobytes(_ key: String) -> Int {
            guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(key + ":") }) else { return 0 }
            return line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return (kilobytes("VmRSS") * 1024, kilobytes("VmHWM") * 1024)
    }

    /// The load average of the last minute.
    package static var load: Double {
        let text = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)) ?? ""
        return text.split(separator: " ").first.flatMap { Double($0) } ?? 0
    }

    private static func row(_ id: Int32) -> Row? {
        // The second field is the program's name in parentheses, which may hold anything.
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return nil }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 14, let parent = Int32(fields[1]) else { return nil }
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        func seconds(_ index: Int) -> Double { (Double(fields[index]) ?? 0) / ticks }
        return Row(parent: parent, own: seconds(11) + seconds(12), reaped: seconds(13) + seconds(14))
    }
}
