import UpstreamKit

/// What the app sends.
struct Order: Decodable {
    var item: String
    var quantity: Int
}

/// Takes orders.
struct TakeOrder: UpstreamHandler {
    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        // Data of another shape throws, which sets the message aside as a dead letter.
        let order = try message.decode(Order.self)
        guard order.quantity > 0 else { return .reject(reason: "an order needs a quantity above zero") }
        print("order of \(order.quantity) \(order.item), attempt \(context.attempt)")
        return .done
    }
}

@main
enum Orders {
    /// Shows the handler one made-up message, as its unit test would.
    static func main() async throws {
        let registry = try HandlerRegistry([
            HandlerRegistration("orders", categories: ["com.example.orders"], handler: TakeOrder())
        ])
        let message = UpstreamMessage.sample(category: "com.example.orders", data: #"{"item":"tea","quantity":2}"#)
        for registration in registry.subscribed(to: message.category) {
            let context = HandlerContext(handler: registration.name)
            print(try await TakeOrder().handle(message, context: context))
        }
    }
}
