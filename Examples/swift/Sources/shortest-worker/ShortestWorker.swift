import UpstreamWorker

struct Order: Decodable { var item: String, quantity: Int }

struct TakeOrder: UpstreamHandler {
    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let order = try message.decode(Order.self)
        return order.quantity > 0 ? .done : .reject(reason: "an order needs a quantity above zero")
    }
}

@main
struct ShortestWorker: UpstreamWorkerProgram {
    static let handlers = [HandlerRegistration("orders", categories: ["com.example.orders"], handler: TakeOrder())]
}
