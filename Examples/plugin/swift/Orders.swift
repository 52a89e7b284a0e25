// A handler in Swift as a plugin. The Swift runtime is loaded into the plugin's process, not into the worker.
//
//     swiftc -O -swift-version 6 -parse-as-library -emit-library -import-objc-header upstream_plugin.h -o orders.so Orders.swift

import Foundation

/// An order as devices send it.
private struct Order: Decodable {
    var item: String
    var quantity: Int
}

/// The version of the interface that this is built for.
@_cdecl("upstream_plugin_abi")
public func pluginABI() -> UInt32 { UInt32(UPSTREAM_PLUGIN_ABI) }

/// Handles the messages of one call.
@_cdecl("upstream_plugin_handle")
public func handle(
    _ messages: UnsafePointer<UnsafePointer<upstream_message>>,
    _ count: Int,
    _ outcomes: UnsafePointer<UnsafeMutablePointer<upstream_outcome>>
) -> CInt {
    for index in 0..<count {
        let outcome = outcomes[index]
        let data = messages[index].pointee.data
        guard let bytes = data.bytes else {
            upstream_reject(outcome, "an order needs data")
            continue
        }
        do {
            let order = try JSONDecoder().decode(Order.self, from: Data(bytes: bytes, count: data.length))
            if order.quantity > 0 {
                upstream_done(outcome)
            } else {
                upstream_reject(outcome, "an order needs a quantity above zero")
            }
        } catch {
            // Not the error's text, which may quote the payload.
            upstream_reject(outcome, "the data is not an order")
        }
    }
    return 0
}
