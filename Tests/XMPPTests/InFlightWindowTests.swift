import Testing

@testable import XMPP

@Suite("The in-flight window of a connection")
struct InFlightWindowTests {
    @Test("reading pauses a little above the window and resumes at half")
    func readingPausesALittleAboveTheWindowAndResumesAtHalf() {
        var window = InFlightWindow(window: 100)
        for count in 1..<120 { #expect(window.took(bytes: 1) == false, "\(count)") }
        #expect(window.took(bytes: 1) == true)
        #expect(window.took(bytes: 1) == false && window.isPaused)
        #expect(window.settled(messages: 60, bytes: 60) == false)
        #expect(window.settled(messages: 1, bytes: 1) == true)
        #expect(window.settled(messages: 60, bytes: 60) == false && window.isEmpty)
    }

    @Test("bytes are bounded, too; one message larger than the bound passes")
    func bytesAreBoundedToo() {
        var window = InFlightWindow(window: 100, byteLimit: 1_000)
        #expect(window.took(bytes: 999) == false)
        #expect(window.took(bytes: 1) == true)
        #expect(window.settled(messages: 1, bytes: 400) == false)
        #expect(window.settled(messages: 1, bytes: 600) == true)
        // One message larger than the bound passes.
        #expect(window.took(bytes: 5_000) == true)
        #expect(window.settled(messages: 1, bytes: 5_000) == true)
    }
}
