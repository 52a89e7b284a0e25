import ConsoleSupport
import IntegrationSupport
import Testing

@testable import Console

@Suite("compressed pages")
struct GzipTests {
    /// What Python's own reader makes of a gzip stream, checksum and length included.
    private static func read(_ bytes: [UInt8]) async throws -> [UInt8] {
        let folder = try TemporaryFolder()
        let packed = try folder.write(bytes, as: "packed.gz")
        let script = "import gzip,sys;sys.stdout.write(gzip.open(sys.argv[1]).read().hex())"
        let (status, output, errors) = try await TestTools.run("python3", ["-c", script, packed], in: folder.url)
        #expect(status == 0, "\(errors)")
        let digits = Array(output.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap { place in
            UInt8(String(decoding: digits[place..<place + 2], as: UTF8.self), radix: 16)
        }
    }

    @Test("what is compressed is read as it was: nothing, every byte, repetitions of every length and from far")
    func exact() async throws {
        let noise = (0..<70_000).map { _ in UInt8.random(in: 0...255) }
        let far = Array(noise[..<40_000] + noise[..<300] + noise[7_000..<7_259] + noise[39_000..<40_000])
        var runs: [UInt8] = []
        for length in 1...600 {
            runs += [UInt8](repeating: UInt8(length % 7), count: length % 300) + [UInt8(length % 251)]
        }
        let words = Array(String(repeating: "<td class=\"num\">12</td>\n<td>é</td>", count: 3_000).utf8)
        let inputs: [[UInt8]] = [
            [], [0], [1, 2], [9, 9, 9], Array(0...255), noise, far, runs, words,
        ]
        for input in inputs {
            let packed = Gzip.compress(input)
            #expect(try await Self.read(packed) == input, "\(input.count) bytes")
        }
        #expect(Gzip.compress(words).count < words.count / 20)
    }

    @Test("a long page is compressed for the console's own pages and whoever types its address, for nobody else")
    func pages() async throws {
        try await ConsoleHarness.run { console in
            try await console.kill(200)
            let path = "/dead/letters?handler=orders"
            let plain = try await console.get(path)
            #expect(plain.header("Content-Encoding") == nil && plain.body.count > Gzip.least)
            func page(_ site: String?, _ encoding: String, _ path: String) async throws -> ConsoleReply {
                var headers = ["Accept-Encoding": encoding, "Sec-Fetch-Mode": "navigate"]
                headers["Sec-Fetch-Site"] = site
                return try await console.get(path, headers: headers)
            }
            for site in ["same-origin", "none"] {
                let reply = try await page(site, "br, gzip;q=0.8", path)
                #expect(reply.header("Content-Encoding") == "gzip" && reply.body.count < plain.body.count / 2)
                let text = String(decoding: try await Self.read(reply.body), as: UTF8.self)
                #expect(text.contains("<title>Dead letters") && text.hasSuffix("</body></html>\n"))
            }
            for (site, encoding, path) in [
                ("cross-site", "gzip", path), ("same-site", "gzip", path), (nil, "gzip", path),
                ("none", "br", path), ("none", "gzip;q=0", path), ("none", "gzip", "/sign-in"),
            ] {
                let reply = try await page(site, encoding, path)
                #expect(reply.header("Content-Encoding") == nil, "\(site ?? "-") \(encoding) \(path)")
            }
        }
    }
}
