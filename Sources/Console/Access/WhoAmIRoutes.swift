import HTTPTypes
import Hummingbird
import NIOCore
import Vocabulary

/// `GET whoami`: the name and the rights of whoever asks.
struct WhoAmIRoutes: ConsoleRoutes {
    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("whoami") { _, context in
            let principal = try context.require(.read)
            var json = JSONWriter()
            json.beginObject()
            json.member("name", principal.name)
            json.member("role", principal.role.rawValue)
            json.name("rights")
            json.beginArray()
            for right in ConsoleRight.allCases where principal.may(right) { json.string(right.rawValue) }
            json.endArray()
            json.endObject()
            json.endLine()
            return Response(
                status: .ok,
                headers: [.contentType: "application/json"],
                body: .init(byteBuffer: ByteBuffer(bytes: json.finish()))
            )
        }
    }
}
