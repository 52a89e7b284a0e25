import UpstreamWorker

/// The app's data.
struct Order: Decodable {
    var item: String
    var quantity: Int
}

/// Takes orders.
struct TakeOrder: UpstreamHandler {
    let stock: Stock

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        // Data of another shape throws, which makes the message a dead letter.
        let order = try message.decode(Order.self)
        guard order.quantity > 0 else { return .reject(reason: "an order needs a quantity above zero") }
        guard await stock.take(order.quantity, of: order.item, for: message.messageKey) else {
            return .retry(after: .seconds(1), reason: "out of stock")
        }
        return .done
    }
}

/// A worker with its own handler: `orders-worker run`, and every other command of `upstream-worker`.
@main
struct OrdersWorker: UpstreamWorkerProgram {
    static var handlers: [HandlerRegistration] {
        var orders = HandlerRegistration(
            "orders",
            categories: ["com.example.orders"],
            handler: TakeOrder(stock: Stock())
        )
        orders.concurrency = 8
        orders.retry = RetryPolicy(maxAttempts: 5, initial: .milliseconds(100), maximum: .seconds(60))
        return [orders]
    }
}
