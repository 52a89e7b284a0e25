import Dispatcher

/// The end of a call's meaning for one of its messages.
enum PluginVerdict: Sendable, Hashable {
    case settled(HandlerVerdict)
    /// The culprit is unknown: the message is repeated in its own call.
    case again

    /// Judges the host's reply about a message; the plugin's outcome counts however the call ended.
    static func of(_ outcome: PluginFrame.Outcome?, _ reply: PluginFrame.Reply, isAlone: Bool) -> PluginVerdict {
        switch outcome {
        case .said(let outcome): return .settled(HandlerVerdict(outcome))
        case .unknown: return .settled(.retry(after: nil, unknown))
        case nil: break
        }
        switch reply.end {
        case .returned: return .settled(.retry(after: nil, unset))
        case .unavailable: return .settled(.unavailable(after: nil, unable))
        case .notLoaded:
            return .settled(
                .unavailable(after: nil, HandlerFailure(group: "plugin can not be loaded", detail: reply.detail))
            )
        case .crashed, .timedOut: guard isAlone else { return .again }
        }
        let failure = HandlerFailure(
            group: reply.end == .crashed ? "plugin ended before it answered" : "plugin gave no answer in time",
            detail: "the plugin's process ended: \(reply.detail)"
        )
        // A hang may be the plugin's fault; a crash is this message's.
        return .settled(reply.end == .crashed ? .retry(after: nil, failure) : .down(after: nil, failure))
    }

    private static let unset = HandlerFailure(
        group: "plugin set no outcome",
        detail: "upstream_plugin_handle returned 0 and set no outcome for this message"
    )

    private static let unknown = HandlerFailure(
        group: "plugin set an unknown outcome",
        detail: "the outcome's kind is none of UPSTREAM_DONE, UPSTREAM_RETRY and UPSTREAM_REJECT"
    )

    private static let unable = HandlerFailure(
        group: "plugin says it can not work now",
        detail: "upstream_plugin_handle did not return 0"
    )
}
