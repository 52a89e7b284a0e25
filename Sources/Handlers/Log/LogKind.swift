import ConfigurationKeys
import UpstreamKit

/// A line in the log.
struct LogKind: HandlerKind {
    static let key = "log"

    init(_ scope: ConfigurationScope) {}

    func body(_ common: HandlerCommon) -> HandlerRegistration.Body {
        .handler(MessageLogHandler(logger: common.gathered))
    }
}
