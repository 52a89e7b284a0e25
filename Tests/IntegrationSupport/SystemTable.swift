import Foundation

/// Reads a file of `/proc` to its end.
///
/// The system hands such a file out a page at a time and names no size; `String(contentsOfFile:)` and `Data(contentsOf:)` take the
/// first page for all of it.
package func readSystemTable(_ path: String) throws -> String {
    let file = try FileHandle(forReadingFrom: URL(filePath: path))
    return String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
}
