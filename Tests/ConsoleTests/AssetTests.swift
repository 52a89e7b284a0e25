import ConsoleSupport
import Testing

@testable import Console

struct AssetTests {
    @Test("the live tail tells of what is missing")
    func gap() throws {
        let tail = try #require(PageAssets.files.first { $0.name.description == "tail.js" })
        #expect(tail.content.description.contains(#"events.addEventListener("gap""#))
    }

    @Test("style sheet and scripts are small: 60 KB together")
    func size() {
        let size = PageAssets.files.filter { $0.name.description != "icon.svg" }.map(\.content.utf8CodeUnitCount)
            .reduce(0, +)
        #expect(size < 60_000, "\(size) bytes")
    }

    @Test(
        "every file is served under the digest, with its type, to be kept for ever; under another digest it is not there"
    )
    func served() async throws {
        try await ConsoleHarness.run { console in
            for file in PageAssets.files {
                let reply = try await console.get(PageAssets.address(file.name).text, as: .nobody)
                #expect(reply.status == 200, "\(file.name)")
                #expect(reply.header("content-type") == file.type)
                #expect(reply.header("cache-control") == "public, max-age=31536000, immutable")
                #expect(reply.text == file.content.description)
            }
            #expect(try await console.get("/assets/0123456789ab/console.css", as: .nobody).status == 404)
            #expect(try await console.get("/assets/\(PageAssets.digest)/nothing.js", as: .nobody).status == 404)
        }
    }
}
