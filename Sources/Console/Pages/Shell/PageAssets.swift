import Digests
import HTTPTypes
package import Hummingbird
import NIOCore
import UpstreamConfiguration
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

    /// The icon in an environment's colour.
    static func icon(_ colour: ConsoleConfiguration.Colour?) -> PageAddress {
        let name = colour.map { "icon-\($0.rawValue).svg" } ?? "icon.svg"
        return PageAddress("/assets").adding(digest).adding(name)
    }

    /// A file's text; that of an icon in a colour is made from the one there is.
    private static func content(_ name: String) -> (text: String, type: String)? {
        if let file = files.first(where: { $0.name.description == name }) {
            return (file.content.description, file.type)
        }
        guard let colour = ConsoleConfiguration.Colour.allCases.first(where: { name == "icon-\($0.rawValue).svg" }),
            let icon = files.first(where: { $0.name.description == "icon.svg" })
        else { return nil }
        return (icon.content.description.replacing("#2f4fc4", with: colour.code), icon.type)
    }

    package static func add(to router: RouterGroup<ConsoleContext>) {
        router.get("assets/:digest/:name") { _, context in
            let name = context.parameters.get("name")
            guard context.parameters.get("digest") == digest, let file = name.flatMap({ content(String($0)) })
            else { throw HTTPError(.notFound) }
            let forEver: HTTPFields = [.cacheControl: "public, max-age=31536000, immutable"]
            return Response(ByteBuffer(string: file.text), type: file.type, headers: forEver)
        }
    }
}

extension ConsoleConfiguration.Colour {
    /// Its value in icons, as `--env` in the style sheet.
    fileprivate var code: String {
        switch self {
        case .blue: "#2f4fc4"
        case .green: "#0f6b46"
        case .orange: "#b45309"
        case .red: "#b3261e"
        case .purple: "#6d28d9"
        case .grey: "#545f70"
        }
    }
}
