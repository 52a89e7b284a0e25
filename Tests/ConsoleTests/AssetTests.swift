import ConsoleSupport
import Foundation
import Testing

@testable import Console

struct AssetTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources/Console/Assets")

    @Test("the embedded files are those of Assets/: run scripts/embed-assets")
    func embedded() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).sorted()
        #expect(PageAssets.files.map(\.name.description) == names)
        for file in PageAssets.files {
            let text = try String(contentsOf: Self.folder.appending(path: file.name.description), encoding: .utf8)
            #expect(file.content.description + "\n" == text, "\(file.name)")
        }
    }

    @Test("the live tail tells of what is missing")
    func gap() throws {
        let tail = try #require(PageAssets.files.first { $0.name.description == "tail.js" })
        #expect(tail.content.description.contains(#"events.addEventListener("gap""#))
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
