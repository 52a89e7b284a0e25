import Foundation
import NIOCore
import Testing

@testable import CCSEmulator

@Suite("LoadGenerator: repeatable messages and their ids")
struct LoadGeneratorTests {
    private let address = StanzaAddress(from: "devices@gcm.googleapis.com", to: "1@gcm.googleapis.com")

    private func generator(_ change: (inout LoadProfile) -> Void = { _ in }) -> LoadGenerator {
        var profile = LoadProfile(count: 1000)
        profile.categories = [.init(name: "a.b"), .init(name: "c.d", weight: 3)]
        profile.size = 380...700
        profile.receiptShare = 0.2
        change(&profile)
        return LoadGenerator(profile: profile, address: address)
    }

    private func stanza(_ generator: LoadGenerator, _ sequence: Int, copy: Int = 0, conflicting: Bool = false) -> String
    {
        var buffer = ByteBuffer()
        generator.append(sequence, copy: copy, conflicting: conflicting, to: &buffer)
        return String(buffer: buffer)
    }

    @Test("the same number gives the same JSON in every wrapping, and ids are unique")
    func repeatable() throws {
        let generator = generator()
        var ids: Set<String> = []
        var categories: [String: Int] = [:]
        for sequence in 0..<1000 {
            let first = try unwrap(stanza(generator, sequence))
            for copy in 1..<4 {
                #expect(try unwrap(stanza(generator, sequence, copy: copy)) as NSDictionary == first as NSDictionary)
            }
            let id = try #require(first["message_id"] as? String)
            #expect(id == generator.id(sequence))
            #expect(first["from"] as? String == generator.sender(sequence))
            #expect((first["message_type"] as? String == "receipt") == generator.isReceipt(sequence))
            ids.insert(id)
            categories[try #require(first["category"] as? String), default: 0] += 1
        }
        #expect(ids.count == 1000)
        #expect(try #require(categories["c.d"]) > 2 * (try #require(categories["a.b"])))
    }

    @Test("four wrappings occur")
    func wrappings() {
        let generator = generator()
        let all = (0..<100).map { stanza(generator, $0) }
        #expect(all.contains { $0.contains("<data:gcm ") })
        #expect(all.contains { $0.contains("<![CDATA[") })
        #expect(all.contains { $0.contains("&quot;") })
        #expect(all.contains { $0.contains("<gcm xmlns=\"google:mobile:data\">{\"") })
    }

    @Test("a conflicting copy has the same id and sender and other data")
    func conflicting() throws {
        let generator = generator()
        for sequence in 0..<50 {
            let one = try unwrap(stanza(generator, sequence))
            let other = try unwrap(stanza(generator, sequence, conflicting: true))
            #expect(one["message_id"] as? String == other["message_id"] as? String)
            #expect(one["from"] as? String == other["from"] as? String)
            #expect(one["data"] as? NSDictionary != other["data"] as? NSDictionary)
        }
    }

    @Test("JSON sizes keep to the range")
    func sizes() {
        let generator = generator {
            $0.receiptShare = 0
            $0.forms = [.cdata]
            $0.size = 500...900
        }
        let overhead = String(decoding: address.stanza(around: [], form: .cdata), as: UTF8.self).utf8.count
        let sizes = Set(
            (0..<200).map { stanza(generator, $0).replacing("]]><![CDATA[", with: "").utf8.count - overhead }
        )
        #expect(sizes.min() == 500)
        #expect(sizes.max() == 900)
    }

    @Test("ids and senders are recognised, and nothing like them is")
    func recognises() {
        let generator = generator()
        func find(_ id: String) -> Int? { Array(id.utf8).withUnsafeBufferPointer { generator.sequence(ofID: $0) } }
        func sends(_ token: String, _ sequence: Int) -> Bool {
            Array(token.utf8).withUnsafeBufferPointer { generator.isSender($0, of: sequence) }
        }
        for sequence in 0..<300 {
            let id = generator.id(sequence)
            #expect(find(id) == sequence)
            #expect(find(id + "0") == nil)
            #expect(find(String(id.dropLast())) == nil)
            #expect(find(id.hasPrefix("dr2:") ? String(id.dropFirst(4)) : "dr2:" + id) == nil)
            let token = generator.sender(sequence)
            #expect(sends(token, sequence))
            #expect(!sends(token + "x", sequence))
            #expect(!sends(String(token.dropLast()), sequence))
            #expect(!sends("x" + token.dropFirst(), sequence))
            if !generator.isReceipt(sequence) { #expect(!sends(token.replacing("FAKE-0", with: "FAKE-9"), sequence)) }
        }
        #expect(find("") == nil)
        #expect(find("other-000000000001") == nil)
    }

    @Test("scattered ids are recognised, and come in no order")
    func scattered() {
        let generator = generator { $0.idsAreScattered = true }
        let ids = (0..<300).map(generator.id)
        #expect(Set(ids).count == ids.count)
        #expect(ids != ids.sorted())
        for (sequence, id) in ids.enumerated() {
            #expect(Array(id.utf8).withUnsafeBufferPointer { generator.sequence(ofID: $0) } == sequence)
            #expect(stanza(generator, sequence).contains(id))
        }
        let ends = [0, 999_999_999_999]
        #expect(ends.map(ScatteredNumber.number).map(ScatteredNumber.sequence) == ends)
    }

    @Test("another seed gives another load; the prefix can be set")
    func seeds() {
        #expect(generator().id(1) == generator().id(1))
        #expect(generator().id(1) != generator { $0.seed = 2 }.id(1))
        #expect(stanza(generator(), 5) == stanza(generator(), 5))
        #expect(
            generator {
                $0.idPrefix = "run.1"
                $0.receiptShare = 0
            }.id(7) == "run.1-000000000007"
        )
    }

    @Test("an unusable profile says what is wrong")
    func problems() {
        var profile = LoadProfile(count: 10)
        #expect(profile.problems.isEmpty)
        profile.rate = 0
        profile.devices = 0
        profile.categories = []
        profile.receiptShare = 2
        profile.idPrefix = "a b"
        profile.forms = []
        #expect(profile.problems.count == 6)
        profile = LoadProfile(count: -1)
        profile.categories = [.init(name: "a\"b", weight: 0)]
        #expect(profile.problems.count == 3)
    }
}
