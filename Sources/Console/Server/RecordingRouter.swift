import HTTPTypes
import Hummingbird

/// A router that knows each path's methods, so that another method is answered with 405 instead of 404.
final class RecordingRouter: RouterMethods {
    typealias Context = ConsoleContext

    static let methods: [HTTPRequest.Method] = [.get, .post, .put, .patch, .delete, .options, .trace]

    private let router = Router(context: ConsoleContext.self)
    private var paths: [String: (path: RouterPath, methods: Set<HTTPRequest.Method>)] = [:]

    @discardableResult
    func on<Responder: HTTPResponder>(
        _ path: RouterPath,
        method: HTTPRequest.Method,
        responder: Responder
    ) -> Self where Responder.Context == ConsoleContext {
        paths[path.description, default: (path, [])].methods.insert(method)
        router.on(path, method: method, responder: responder)
        return self
    }

    func add(middleware: any MiddlewareProtocol<Request, Response, ConsoleContext>) -> Self {
        router.add(middleware: middleware)
        return self
    }

    var routes: [String: Set<HTTPRequest.Method>] { paths.mapValues(\.methods) }

    func finish() -> RouterResponder<ConsoleContext> {
        for (path, methods) in paths.values {
            let names = methods.map(\.rawValue) + (methods.contains(.get) ? ["HEAD"] : [])
            let allowed = names.sorted().joined(separator: ", ")
            for method in Self.methods where !methods.contains(method) {
                router.on(path, method: method) { _, _ -> Response in
                    throw Problem(.method, "this path takes \(allowed)", headers: [.allow: allowed])
                }
            }
        }
        return router.buildResponder()
    }
}
