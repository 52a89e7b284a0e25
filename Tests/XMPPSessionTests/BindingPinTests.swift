import Testing
import Vocabulary

@testable import XMPPSession

@Suite("What is remembered of channel binding")
struct BindingPinTests {
    @Test("the first bound sign-in is noted once, told to the database, and forgotten when that has lost it")
    func life() {
        let pin = BindingPin()
        #expect(!pin.isSet && pin.fresh == nil)
        // Nothing there yet: nothing is lost.
        pin.read(isKept: false)
        #expect(pin.signedIn(.unique) && !pin.signedIn(.exporter))
        #expect(pin.isSet && pin.fresh == .unique)
        // Not written yet.
        pin.read(isKept: false)
        #expect(pin.isSet && pin.fresh == .unique)
        pin.read(isKept: true)
        #expect(pin.isSet && pin.fresh == nil && !pin.signedIn(.unique))
        // Somebody has forgotten it; the next bound sign-in is the first again.
        pin.read(isKept: false)
        #expect(!pin.isSet && pin.signedIn(.exporter))
        // Another worker was first.
        let other = BindingPin()
        other.read(isKept: true)
        #expect(other.isSet && other.fresh == nil && !other.signedIn(.unique))
    }
}
