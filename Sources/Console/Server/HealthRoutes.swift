import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore

/// `/livez` and `/readyz`, for probes: without signing in, and without telling anything.
struct HealthRoutes: ConsoleRoutes {
    let services: ConsoleServices

    /// `/livez`, which a probe asks by an address of its own choice and as often as it likes.
    static func live(_ request: Request) -> Response? {
        guard request.method == .get, request.head.path == "/livez" else { return nil }
        return text("ok\n", .ok)
    }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("livez") { _, _ in Self.text("ok\n", .ok) }
        router.get("readyz") { _, _ in
            // A role that only reads, on a standby, does for the console.
            switch try? await services.reader.withConnection({ try await StoreHealth.check($0) }) {
            case .ready, .readOnly: return Self.text("ok\n", .ok)
            case .schema: return Self.text("the schema is not this program's\n", .serviceUnavailable)
            case nil: return Self.text("the database does not answer\n", .serviceUnavailable)
            }
        }
    }

    private static func text(_ text: String, _ status: HTTPResponse.Status) -> Response {
        Response(
            status: status,
            headers: [.contentType: "text/plain; charset=utf-8"],
            body: .init(byteBuffer: ByteBuffer(string: text))
        )
    }
}
