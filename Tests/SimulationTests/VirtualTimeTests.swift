import Foundation
import Testing

@testable import Simulation

@Suite("Virtual time")
struct VirtualTimeTests {
    @Test("Timers come by time, and in the order of their making where times are equal")
    func timers() {
        var heap = TimerHeap()
        var fired: [Int] = []
        for (number, time) in [5, 1, 3, 1, 4, 1, 5, 2].enumerated() {
            heap.push(Timer(process: 0) { fired.append(number) }, at: UInt64(time))
        }
        while let timer = heap.pop() { timer.take()?() }
        #expect(fired == [1, 3, 5, 7, 2, 4, 0, 6])
    }

    @Test("A cancelled timer does nothing")
    func cancelled() {
        let timer = Timer(process: 0) { Issue.record("it fired") }
        timer.cancel()
        #expect(timer.take() == nil)
    }

    @Test("Drawn times lie between their bounds, and are the same for a seed")
    func times() {
        var (first, second) = (SplitMix(seed: 7, for: "test"), SplitMix(seed: 7, for: "test"))
        for _ in 0..<1_000 {
            let time = first.time(.milliseconds(1), .seconds(10))
            #expect((.milliseconds(1) ... .seconds(10)).contains(time))
            #expect(second.time(.milliseconds(1), .seconds(10)) == time)
        }
    }

    @Test("Drawn numbers are all those below the limit")
    func numbers() {
        var random = SplitMix(seed: 3, for: "test")
        #expect(Set((0..<1_000).map { _ in random.below(7) }) == Set(0..<7))
    }

    @Test("Numbers in a trace are shown as ranges")
    func ranges() {
        #expect(Trace.ranges([1, 2, 3, 7, 9, 10]) == "1-3 7 9-10")
        #expect(Trace.ranges([]) == "")
    }
}

/// What runs on virtual time must be given its clock, its random numbers and its threads.
@Suite("Sources of the simulated modules")
struct SeamTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The files that may, with the reason.
    private static let allowed = [
        "XMPPSession/ArrivalClock.swift": "the default of what is given",
        "XMPPSession/KeyDeriver.swift": "derives keys on a thread; the simulated server asks for none",
        "XMPPSession/StreamConnector.swift": "TCP, and the drawing of its places: a given transport comes before it",
        "XMPPSession/Finding/ServiceLookup.swift": "DNS, before a transport",
        "Ingest/CommitStatus.swift": "told by the store, behind the port",
        "Ingest/BatchTrace.swift": "ids and times of spans",
        "Dispatcher/AttemptRecording.swift": "used by the store, behind the port",
        "Dispatcher/DeadLetterLog.swift": "when a line is logged",
        "Dispatcher/DispatchService+Loops.swift": "when a line is logged",
        "Dispatcher/DispatchIntake.swift": "an offer's deadline before it is set",
    ]

    @Test("No source in them reads a clock, draws a random number, sleeps or starts a thread by itself")
    func sources() throws {
        let forbidden = try Regex(
            #"ContinuousClock\.now|ContinuousClock\(\)|SuspendingClock|MonotonicTime\.now|Timestamp\.now|\(\.now|= \.now"#
                + #"|\.now\(\)|Task\.sleep|Task\.detached|\.random\(|\.randomElement|shuffle|SystemRandomNumber"#
                + #"|DispatchQueue|DispatchTime|pthread_create|Thread[ (.{]|NIOThreadPool"#
        )
        // An injected clock is asked in the same words.
        let given = try Regex(#"clock\.now\(\)|clock\.random\(\)|random\.next|shared\.clock\.(now|random)\(\)"#)
        var used: Set<String> = []
        for module in ["XMPP", "XMPPSession", "Ingest", "Dispatcher"] {
            let folder = Self.root.appending(path: "Sources/\(module)")
            let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
            while let file = files?.nextObject() as? URL {
                guard file.pathExtension == "swift" else { continue }
                let name = String(file.path.dropFirst(Self.root.appending(path: "Sources").path.count + 1))
                for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                    let code = line.replacing(given, with: "")
                    guard !line.drop(while: { $0 == " " }).hasPrefix("//"), code.contains(forbidden) else { continue }
                    used.insert(name)
                    #expect(Self.allowed[name] != nil, "\(name): \(line)")
                }
            }
        }
        #expect(used == Set(Self.allowed.keys), "files that are allowed what they no longer do")
    }
}
