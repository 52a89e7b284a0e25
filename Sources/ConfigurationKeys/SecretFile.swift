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
    /// - Parameter isGuarded: Whether it must be a regular file that nobody else can write; false for a secret handed
    ///   over at a terminal, which may come from a pipe.
    /// - Throws: ``FileError`` if the file can't be read, is larger than 64 KiB, or holds a NUL, as UTF-16 and torn
    ///   files do and no secret does.
    /// - Returns: The lines.
    package func lines(isGuarded: Bool = true) throws(FileError) -> [[UInt8]] {
        let bytes = try ConfigurationFiles.read(path, atMost: 1 << 16, isGuarded: isGuarded)
        guard !bytes.contains(0) else {
            throw FileError(
                path: path,
                number: 0,
                fault: "holds a NUL byte, which no secret has: write it as plain text"
            )
        }
        return bytes.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
            .filter { line in line.contains { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") } }
            .map(Array.init)
    }

    /// Why the file can't be used; nil if it can.
    var problem: String? {
        do throws(FileError) {
            return try lines().isEmpty ? "'\(path)' holds no secret: it is empty or blank" : nil
        } catch {
            return error.message
        }
    }
}

extension ConfigurationScope {
    /// A required key for a secret file.
    ///
    /// Problems with the file are reported with all others.
    package func secretFile(_ name: String, _ meaning: String) -> SecretFile {
        SecretFile(path: warned(name, required(name, secretPath, meaning)))
    }

    /// An optional key for a secret file; `note` is its default in the table.
    package func optionalSecretFile(_ name: String, _ note: String, _ meaning: String) -> SecretFile? {
        optional(name, secretPath, note, meaning).map { SecretFile(path: warned(name, $0)) }
    }

    private var secretPath: ConfigurationType<String> {
        .init(name: "file", placeholder: "") { [files = reading.files] text throws(ConfigurationTypeError) in
            let path = try files.resolve(ConfigurationType.text.parse(text))
            if let problem = SecretFile(path: path).problem { throw .init(message: problem) }
            return path
        }
    }

    private func warned(_ name: String, _ path: String) -> String {
        if !path.isEmpty, ConfigurationFiles.isWorldReadable(path) {
            warning(name, "every user of this machine can read '\(path)': chmod 600 it")
        }
        return path
    }
}

extension ConfigurationType where Value == String {
    package static var file: Self {
        .init(name: "file", placeholder: "") { text throws(ConfigurationTypeError) in
            let path = try ConfigurationType.text.parse(text)
            if let problem = ConfigurationFiles.problem(with: path) { throw .init(message: problem) }
            return path
        }
    }
}
