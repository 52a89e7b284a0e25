import UpstreamWorker

/// What there is to sell; in earnest a database.
actor Stock {
    private var left = ["tea": 100, "coffee": 0]
    private var taken: [MessageKey: Bool] = [:]

    /// Takes something for a message, once however often the message comes.
    func take(_ quantity: Int, of item: String, for key: MessageKey) -> Bool {
        if let answer = taken[key] { return answer }
        let isThere = left[item, default: 0] >= quantity
        if isThere { left[item, default: 0] -= quantity }
        // Not being there is no final answer: the next try looks again.
        taken[key] = isThere ? true : nil
        return isThere
    }
}
