import CCSEmulator
import EmulatorSupport
import Foundation
import IntegrationSupport
import NIOCore
import Telemetry
import Testing
import Vocabulary

extension Integration {
    /// Connections that drain, break and are made again (G2).
    @Suite struct ConnectionTests {
        @Test(
            "a draining connection goes on receiving and acking until its replacement is there, and then to its end",
            arguments: [Fault.drain, .drainNack]
        )
        func draining(_ fault: Fault) async throws {
            let count = 3000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.rate = 500
                $0.drainMessages = 100_000
                $0.drainTimeout = .seconds(60)
                // The replacement hangs, so that the draining one is needed for a while.
                $0.faults = FaultScript(rules: [FaultRule(.connection(2...2), .mute)])
            } _: { stage in
                let emulator = stage.emulator
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.wait(for: "some acks") { $0.tally.acked >= 100 }
                    try await emulator.inject(fault, on: 1)
                    try await stage.wait(for: "the replacement") { $0.tally.connections == 2 }
                    let acked = await emulator.tally().acked
                    try await stage.wait(for: "acks on the draining connection") {
                        $0.tally.acked >= acked + 200 && $0.tally.bound == 1
                    }
                    #expect(worker.metrics.connections(sender: 0, state: .draining).value == 1)
                    #expect(worker.metrics.reconnects[.draining].value == 1)
                    try await emulator.kill(2, reset: true)
                    try await stage.wait(for: "the old connection's end") { snapshot in
                        snapshot.tally.bound == 2 && snapshot.connections.allSatisfy { $0.number != 1 }
                    }
                    try await waitUntil("the gauge falls") {
                        worker.metrics.connections(sender: 0, state: .draining).value == 0
                    }
                    try await stage.waitUntilComplete()
                    let tally = await emulator.tally()
                    #expect(tally.isClean, "\(tally.summary)")
                    // Not one ack came too late for its connection.
                    #expect(worker.metrics.acks[.connectionGone].value == 0)
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == 0)
                }
                #expect(try await stage.database.count("messages") == count)
            }
        }

        @Test("a copy whose connection is gone before its commit is not acked elsewhere; its redelivery is")
        func connectionGone() async throws {
            let count = 40
            try await Stage.run {
                $0.load = LoadProfile(count: count)
            } _: { stage in
                try await stage.withWorker(WorkerOptions(connections: 1)) { worker in
                    try await stage.database.withLockedLedger {
                        try await waitUntil("all are read") { worker.inFlight == count }
                        try await stage.emulator.kill(1, reset: true)
                        try await waitUntil("the connection's end is noticed") {
                            worker.metrics.connections(sender: 0, state: .bound).value == 0
                        }
                    }
                    try await stage.waitUntilComplete()
                    try await waitUntil("all are settled") { worker.inFlight == 0 }
                    #expect(worker.settled(.stored) == count && worker.settled(.duplicate) == count)
                    // Counted when the connection has taken them, which may be after the server has read them.
                    try await waitUntil("the acks are counted") {
                        worker.metrics.acks[.connectionGone].value == count && worker.metrics.acks[.sent].value == count
                    }
                }
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.ackedCopies == count, "\(tally.summary)")
            }
        }

        @Test(
            "hostile XML ends its own stream with a stream error, the connection comes back, and nothing else feels it"
        )
        func hostileXML() async throws {
            let names = HostileXML.names
            try await Stage.run { stage in
                let emulator = stage.emulator
                try await stage.withWorker(WorkerOptions(connections: names.count + 1)) { worker in
                    try await stage.wait(for: "all streams") {
                        $0.bound.count == names.count + 1
                    }
                    let numbers = try await emulator.snapshot().bound.map(\.number)
                    for (number, name) in zip(numbers, names) {
                        try await emulator.inject(.badXML(name), on: number)
                    }
                    let broken = Set(numbers.prefix(names.count))
                    try await stage.wait(for: "new streams in the place of the broken ones") {
                        $0.bound.count == names.count + 1 && $0.connections.allSatisfy { !broken.contains($0.number) }
                    }
                    #expect(worker.metrics.reconnects[.policyViolation].value == names.count)
                    // The one in whose stream nothing was wrong is still there.
                    let bound = try await emulator.snapshot().bound.map(\.number)
                    #expect(bound.first == numbers.last)
                    for number in bound {
                        let json = #"{"message_id":"m-\#(number)","from":"FAKE-t","category":"c","data":1}"#
                        try await emulator.inject(json: json, id: "m-\(number)", to: "FAKE-t", on: number)
                    }
                    try await stage.waitUntilComplete()
                    let tally = await emulator.tally()
                    #expect(tally.isClean && tally.streamErrors == names.count, "\(tally.summary)")
                    #expect(worker.settled(.stored) == bound.count && worker.settled(.quarantined) == 0)
                    // None of them came back without a pause.
                    let delays = worker.logs.lines.filter {
                        $0.contains("stream.reconnect_scheduled") && $0.contains("policy_violation")
                    }
                    #expect(delays.count == names.count && !delays.contains { $0.contains("\"duration_seconds\":0,") })
                }
            }
        }
    }
}
