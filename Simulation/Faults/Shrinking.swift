/// Finds few faults that still break a guarantee (delta debugging, Zeller 1999).
enum Shrinking {
    static func least(_ plan: Plan, _ guarantee: Judge.Guarantee) -> Plan {
        var best = plan
        var parts = 2
        while best.faults.count > 1 {
            let size = (best.faults.count + parts - 1) / parts
            var found = false
            for start in stride(from: 0, to: best.faults.count, by: size) {
                var candidate = best
                candidate.faults.removeSubrange(start..<min(start + size, best.faults.count))
                guard Simulation(candidate).run().failure?.guarantee == guarantee else { continue }
                best = candidate
                found = true
                break
            }
            if found {
                parts = max(2, parts - 1)
            } else if size == 1 {
                break
            } else {
                parts = min(parts * 2, best.faults.count)
            }
        }
        return best
    }
}
