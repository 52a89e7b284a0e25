import UpstreamWorker

/// The goods in stock; in production, a database.
actor Stock {
    private var left = ["tea": 100, "coffee": 0]
    private var taken: [MessageKey: Bool] = [:]

    /// Takes goods for a message, once however often the message comes.
    func take(_ quantity: Int, of item: String, for key: MessageKey) -> Bool {
        if let answer = taken[key] { return answer }
        let isThere = left[item, default: 0] >= quantity
        if isThere { left[item, default: 0] -= quantity }
        // "Out of stock" is not final: the next attempt looks again.
        taken[key] = isThere ? true : nil
        return isThere
    }
}
