import Testing

@testable import CCSEmulator

@Suite("Fault scripts")
struct FaultScriptTests {
    @Test("every fault of the reference can be written, with and without its argument")
    func reference() throws {
        for (usage, _) in FaultScript.reference {
            let name = String(usage.prefix { $0 != " " })
            let trigger =
                ["refuse", "close-after-auth", "close-after-bind", "mute"].contains(name) ? "connection 1" : "after 1"
            #expect(try FaultScript(parsing: "\(trigger): \(name)").rules.count == 1)
        }
        #expect(try FaultScript(parsing: "after 1: torn 5ms").rules == [.init(.after(1), .torn(milliseconds: 5))])
        #expect(try FaultScript(parsing: "after 1: stall 3s").rules == [.init(.after(1), .stall(milliseconds: 3000))])
        #expect(try FaultScript(parsing: "after 1: nack X_Y").rules == [.init(.after(1), .nack("X_Y"))])
        #expect(try FaultScript(parsing: "after 1: bad-xml huge").rules == [.init(.after(1), .badXML("huge"))])
        #expect(try FaultScript(parsing: "after 1: odd-json id-nul").rules == [.init(.after(1), .oddJSON("id-nul"))])
    }

    @Test("lines, semicolons and comments")
    func layout() throws {
        let script = try FaultScript(
            parsing: "\n# a comment\n every 50 : duplicate ;after 9: drain # why\r\nconnection 1-3: refuse\n"
        )
        #expect(
            script.rules == [
                .init(.every(50), .duplicate), .init(.after(9), .drain), .init(.connection(1...3), .refuse),
            ]
        )
        #expect(try FaultScript(parsing: "").rules.isEmpty)
    }

    @Test(
        "mistakes are named with their line",
        arguments: [
            ("drain", 1, "expected 'after N"),
            ("\nafter x: drain", 2, "'x' is not a number"),
            ("after 0: drain", 1, "above 0"),
            ("when 5: drain", 1, "not a trigger"),
            ("after 5: dance", 1, "'dance' is not a fault: use one of duplicate"),
            ("after 5:", 1, "no fault after the colon"),
            ("after 5: drain now", 1, "takes no argument"),
            ("after 5: stall 2m", 1, "not a time"),
            ("after 5: stall 1s 2s", 1, "one word too many"),
            ("after 5: refuse", 1, "belongs to a connection"),
            ("connection 1: drain", 1, "needs a delivery"),
            ("connection 3-1: refuse", 1, "above the last"),
            ("after 5: bad-xml nice", 1, "one of comment"),
            ("after 5: odd-json nice", 1, "one of id-missing"),
            ("after 5: nack A\"B", 1, "may hold letters"),
        ]
    )
    func mistakes(text: String, line: Int, message: String) {
        let problem = #expect(throws: FaultScript.Problem.self) { try FaultScript(parsing: text) }
        #expect(problem?.line == line)
        #expect(problem?.message.contains(message) == true, "\(problem?.message ?? "")")
    }

    @Test("faults fall due with their delivery, once or each time")
    func schedule() {
        var rules: [FaultRule] = [
            .init(.every(3), .duplicate), .init(.after(4), .drain), .init(.after(6), .close),
            .init(.connection(2...3), .refuse),
        ]
        let due = (1...9).map { rules.due(atDelivery: $0) }
        #expect(due == [[], [], [.duplicate], [.drain], [], [.duplicate, .close], [], [], [.duplicate]])
        #expect((1...4).map { rules.due(atConnection: $0) } == [[], [.refuse], [.refuse], []])
        rules.append(.init(.every(5), .ping))
        let tenth = rules.due(atDelivery: 10)
        #expect(tenth == [.ping])
    }

    @Test("odd messages have unique names, ids and senders that stand in their stanzas")
    func oddMessages() {
        #expect(Set(OddMessage.all.map(\.name)).count == OddMessage.all.count)
        for message in OddMessage.all {
            let instance = message.instance(
                id: "ID-1",
                token: "TOKEN",
                address: StanzaAddress(from: nil, to: nil),
                form: .defaultNamespace
            )
            let text = String(decoding: instance.stanza, as: UTF8.self)
            #expect(!text.contains("$"))
            if message.isAcked { #expect(text.contains("ID-1") && text.contains("TOKEN"), "\(message.name)") }
            #expect(instance.stanza.count < 256 * 1024)
        }
    }
}
