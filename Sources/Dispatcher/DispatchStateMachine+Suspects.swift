// Suspects: deliveries over which several workers have died; one of them may be the cause. After two unclean ends
// everything in hand is suspect, and hardly any of it is guilty. So the first is taken alone, and twice as many each
// time that all of them did no harm. If the worker dies over several, each of these is alone from then on: only the
// guilty one is held by a worker that dies again, and set aside.
extension DispatchStateMachine {
    /// Whether a suspect waits or runs here.
    package var hasSuspect: Bool { waiting.suspects > 0 || running.values.contains { $0.isSuspect } }

    /// The claims of suspects to make now, until one finds some.
    ///
    /// - Parameter request: A claim of others.
    /// - Returns: None while one waits or runs here.
    package func suspectClaims(like request: ClaimRequest) -> [ClaimRequest] {
        guard !hasSuspect else { return [] }
        var alone = request
        alone.isForSuspects = true
        alone.limit = 1
        guard suspectsAtOnce > 1 else { return [alone] }
        var several = alone
        several.limit = suspectsAtOnce
        several.mostCrashes = settings.suspectFrom
        return [several, alone]
    }

    /// Records that no suspect was found.
    package mutating func foundNoSuspects() { suspectsAtOnce = 1 }

    /// Records that a suspect has ended without killing the worker.
    mutating func suspectEnded() {
        if !hasSuspect { suspectsAtOnce = min(suspectsAtOnce * 2, settings.dispatch.suspectsAtOnce) }
    }
}
