package import ConfigurationKeys

/// The kinds of handlers, in the order of the documents.
package enum HandlerKinds {
    private static let all: [any HandlerKind.Type] = [
        SQLKind.self, WebhookKind.self, ExecKind.self, PluginKind.self, LogKind.self,
    ]

    package static let names = all.map { $0.key }

    /// Reads the single kind of a handler.
    package static func read(_ scope: ConfigurationScope) -> any HandlerKind {
        scope.exactlyOne(of: names)
        let present = all.filter { scope.has($0.key) }
        let read = present.map { $0.init(scope.section($0.key)) }
        guard read.count == 1, let kind = read.first else {
            let found = present.isEmpty ? "none" : present.map { $0.key }.joined(separator: ", ")
            scope.problem("", "must have exactly one of \(names.joined(separator: ", ")); found \(found)")
            return LogKind(scope)
        }
        return kind
    }
}
