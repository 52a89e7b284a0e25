import Digests
import HTTPTypes
package import Hummingbird
import NIOCore
import Vocabulary

/// Style sheet, scripts and icon, which are part of the binary.
///
/// The address holds a digest of all files, so that a browser may cache each for ever, and modules can import each
/// other by relative addresses.
package enum PageAssets {
    /// A file of `Assets/`.
    package struct File: Sendable {
        /// Its name; the extension gives its type.
        package var name: StaticString
        package var content: StaticString

        var type: String {
            switch name.description.split(separator: ".").last {
            case "css": "text/css; charset=utf-8"
            case "js": "text/javascript; charset=utf-8"
            default: "image/svg+xml"
            }
        }
    }

    package static let files = EmbeddedFiles.all.map { File(name: $0.name, content: $0.text) }

    /// The first twelve digits of the digest of all files.
    package static let digest: String = {
        var hash = SHA256()
        for file in files {
            for part in [file.name, file.content] {
                part.withUTF8Buffer { utf8 in
                    hash.update(bigEndian: UInt64(utf8.count))
                    hash.update(UnsafeRawBufferPointer(utf8))
                }
            }
        }
        return String(Hex.encode(hash.finish()).prefix(12))
    }()

    package static func address(_ name: StaticString) -> PageAddress {
        PageAddress("/assets").adding(digest).adding(name.description)
    }

    package static func add(to router: RouterGroup<ConsoleContext>) {
        router.get("assets/:digest/:name") { _, context in
            let name = context.parameters.get("name")
            guard context.parameters.get("digest") == digest,
                let file = files.first(where: { $0.name.description == name })
            else { throw HTTPError(.notFound) }
            let body = file.content.withUTF8Buffer { ByteBuffer(bytes: $0) }
            let forEver: HTTPFields = [.cacheControl: "public, max-age=31536000, immutable"]
            return Response(body, type: file.type, headers: forEver)
        }
    }
}
