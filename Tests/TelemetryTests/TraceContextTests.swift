import Testing
import Vocabulary

@testable import Telemetry

@Suite("W3C Trace Context, read strictly")
struct TraceContextTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let span = "b7ad6b7169203331"

    private func read(_ text: String, state: String? = nil) -> TraceContext? {
        TraceContext(traceparent: Array(text.utf8), tracestate: state.map { Array($0.utf8) })
    }

    @Test("What a device sends is read, and written again as it was")
    func roundTrip() throws {
        let context = try #require(read("00-\(Self.trace)-\(Self.span)-01"))
        #expect(context.trace == Digest128(high: 0x0AF7_6519_16CD_43DD, low: 0x8448_EB21_1C80_319C))
        #expect(context.span == 0xB7AD_6B71_6920_3331)
        #expect(context.isSampled && context.isRemote && context.state == nil)
        #expect(context.traceparent == "00-\(Self.trace)-\(Self.span)-01")
        #expect(read("00-\(Self.trace)-\(Self.span)-00")?.isSampled == false)
        // The flag of level 2 that the id is random is passed on, others are not.
        #expect(read("00-\(Self.trace)-\(Self.span)-ff")?.traceparent.hasSuffix("-03") == true)
    }

    @Test(
        "Hostile values are ignored",
        arguments: [
            "", "00", "00-", "-", "00-\(trace)-\(span)", "00-\(trace)-\(span)-", "00-\(trace)-\(span)-1",
            "00-\(trace)-\(span)-011", "00-\(trace)-\(span)-01-", "00-\(trace)-\(span)-01-extra",
            "00-\(trace)-\(span)-0g",
            "ff-\(trace)-\(span)-01", "0-\(trace)-\(span)-01", "000-\(trace)-\(span)-01", "FF-\(trace)-\(span)-01",
            "00-00000000000000000000000000000000-\(span)-01", "00-\(trace)-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-\(span)-01", "00-\(trace)-B7AD6B7169203331-01",
            "00-\(trace)-\(span)-0A",
            "00-\(trace.dropLast())-\(span)-01", "00-\(trace)0-\(span)-01", "00-\(trace)-\(span)0-01",
            "00-\(trace.dropLast())g-\(span)-01", "00_\(trace)_\(span)_01", " 00-\(trace)-\(span)-01",
            "00-\(trace)-\(span)-01 ", "00-\(trace)-\(span)-01\r\nx: y", "01-\(trace)-\(span)-01.more",
            "00-\(trace)-\(span)-é",
        ]
    )
    func hostile(_ text: String) {
        #expect(read(text) == nil)
    }

    @Test("A later version is read as far as version 00 goes")
    func laterVersion() {
        #expect(read("01-\(Self.trace)-\(Self.span)-01")?.traceparent == "00-\(Self.trace)-\(Self.span)-01")
        #expect(read("cc-\(Self.trace)-\(Self.span)-01-what-the-future-brings")?.isSampled == true)
    }

    @Test("A valid tracestate is passed on as it is; any other is left out, and the rest counts")
    func state() {
        let parent = "00-\(Self.trace)-\(Self.span)-01"
        let longest = "a=" + String(repeating: "v", count: 256)
        for valid in ["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "1a-2b@c*/d_e=x", "a=1 , b= 2", "a=1,,b=2", longest] {
            #expect(read(parent, state: valid)?.state == valid)
        }
        let many = (0..<33).map { "k\($0)=v" }.joined(separator: ",")
        for bad in [
            "", ",", "a", "=1", "A=1", "a=", "a=1=2", "a=1,a=2", "a=é", "a=1\r\nx: y", "a b=1", "_a=1", longest + "v",
            many,
            (0..<3).map { "k\($0)=" + String(repeating: "v", count: 200) }.joined(separator: ","),
        ] {
            #expect(read(parent, state: bad) != nil)
            #expect(read(parent, state: bad)?.state == nil, "\(bad)")
        }
    }

    @Test("The text has every digit in its place, whatever the ids and flags are")
    func text() {
        let digest = Digest128(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
        let context = TraceContext(trace: digest, span: 0x0F1E_2D3C_4B5A_6978, isSampled: true)
        #expect(context.traceparent == "00-0123456789abcdeffedcba9876543210-0f1e2d3c4b5a6978-01")
        #expect("\(context.trace)" == "01234567-89ab-cdef-fedc-ba9876543210")
        let least = TraceContext(trace: Digest128(high: 0, low: 1), span: 1, isSampled: false)
        #expect(least.traceparent == "00-00000000000000000000000000000001-0000000000000001-00")
        let most = TraceContext(trace: Digest128(high: .max, low: .max), span: .max, isSampled: true)
        #expect(most.traceparent == "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01")
        for context in [context, least, most] {
            #expect(context.traceparent.utf8.count == 55)
            #expect(read(context.traceparent)?.traceparent == context.traceparent)
        }
    }

    @Test("A message's own context is the same wherever it is made, and the trace's id is its key")
    func ofMessage() {
        let key = Digest128(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
        let context = TraceContext(messageKey: key, isSampled: true)
        #expect(context == TraceContext(messageKey: key, isSampled: true))
        #expect(context.trace == key)
        #expect(context.span != 0 && context.isSampled && !context.isRemote)
    }

    @Test("The ratio is kept, and the same ids are chosen at every ratio above")
    func sampling() {
        var generator = SystemRandomNumberGenerator()
        let ids = (0..<20_000).map { _ in Digest128(high: generator.next(), low: generator.next()) }
        let some = ids.filter(TraceSampler(ratio: 0.1).isSampled)
        #expect((1_700...2_300).contains(some.count))
        #expect(some.allSatisfy(TraceSampler(ratio: 0.11).isSampled))
        #expect(ids.allSatisfy(TraceSampler(ratio: 1).isSampled))
        #expect(!ids.contains(where: TraceSampler(ratio: 0).isSampled))
        #expect(!TraceSampler(ratio: .nan).isSampled(ids[0]))
        // No trace has this id.
        #expect(!TraceSampler(ratio: 1).isSampled(Digest128(high: 0, low: 0)))
    }
}
