/// A secret in a file: a server key, a webhook's signing key.
///
/// The configuration keeps the path only. The value is read when it is needed, so that a rotated file takes effect with
/// the next connection, and is never part of anything that could be printed.
package struct SecretFile: Sendable, Equatable {
    package var path: String

    package init(path: String) {
        self.path = path
    }

    /// The file's lines, without line ends and without blank lines.
    ///
    /// It must be a regular file that nobody else can write, unless it was handed over at a terminal, where it may be a
    /// pipe; of at most 64 KiB, and without a NUL, as UTF-16 and torn files have and no secret does.
    package func lines(isGuarded: Bool = true) throws(FileError) -> [[UInt8]] {
        let bytes = try ConfigurationFiles.read(path, atMost: 1 << 16, isGuarded: isGuarded)
        guard !bytes.contains(0) else {
            throw FileError(path: path, fault: "holds a NUL byte, which no secret has: write it as plain text")
        }
        return Self.lines(in: bytes)
    }

    /// A text's lines that are not blank, without the byte order mark that editors of Windows put before UTF-8.
    package static func lines(in bytes: [UInt8]) -> [[UInt8]] {
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        return text.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
            .filter { line in line.contains { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") } }
            .map(Array.init)
    }

    var problem: String? {
        do throws(FileError) {
            return try lines().isEmpty ? "'\(path)' holds no secret: it is empty or blank" : nil
        } catch {
            return error.message
        }
    }
}

extension ConfigurationScope {
    /// A required key for a secret file, whose problems are reported with all others.
    package func secretFile(_ name: String) -> ConfigurationEntry<SecretFile> {
        required(name, secretPath).map { warned(name, $0) }
    }

    /// An optional key for a secret file; `note` is its default in the table.
    package func optionalSecretFile(_ name: String, _ note: String) -> ConfigurationEntry<SecretFile?> {
        optional(name, secretPath, note).map { $0.map { warned(name, $0) } }
    }

    private var secretPath: ConfigurationType<String> {
        .path(reading.files.resolve) { SecretFile(path: $0).problem }
    }

    private func warned(_ name: String, _ path: String) -> SecretFile {
        if !path.isEmpty, ConfigurationFiles.isWorldReadable(path) {
            warning(name, "every user of this machine can read '\(path)': chmod 600 it")
        }
        return SecretFile(path: path)
    }
}

extension ConfigurationType where Value == String {
    package static var file: Self { .path(problem: ConfigurationFiles.problem(with:)) }

    /// The path of a file, found by its name; `problem` is nil if it can be used.
    package static func path(
        _ find: @escaping (String) throws(ConfigurationTypeError) -> String = { $0 },
        problem: @escaping (String) -> String?
    ) -> Self {
        .init(name: "file", placeholder: "") { text throws(ConfigurationTypeError) in
            let path = try find(ConfigurationType.text.parse(text))
            if let problem = problem(path) { throw .init(message: problem) }
            return path
        }
    }
}
