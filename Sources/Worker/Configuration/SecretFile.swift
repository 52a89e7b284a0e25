/// A secret that stands in a file: a server key, a webhook's signing key.
///
/// The configuration keeps the path only. The value is read when it is needed, so that a rotated file takes effect with
/// the next connection, and is never part of anything that could be printed.
package struct SecretFile: Sendable, Equatable {
    /// The file's path.
    package var path: String

    package init(path: String) {
        self.path = path
    }

    /// The file's lines, without the ends of lines and without those that are empty or hold spaces only.
    ///
    /// - Parameter isGuarded: Whether it must be a regular file that nobody else can write; not where somebody at a terminal
    ///   hands a secret over, which may come from a pipe.
    /// - Throws: ``FileError`` when the file can't be read, is larger than a secret can be (64 KiB), or holds a NUL, which is
    ///   what a file of UTF-16 or a torn one has and no secret does.
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

    /// Why the file can't be used, or nil.
    var problem: String? {
        do throws(FileError) {
            return try lines().isEmpty ? "'\(path)' holds no secret: it is empty or blank" : nil
        } catch {
            return error.message
        }
    }
}

extension ConfigurationScope {
    /// A key that names a file with a secret.
    ///
    /// What is wrong with the file is reported with everything else.
    func secretFile(_ name: String, _ meaning: String) -> SecretFile {
        SecretFile(path: warned(name, required(name, secretPath, meaning)))
    }

    /// The same for a key that may be missing; `note` is its default in the table.
    func optionalSecretFile(_ name: String, _ note: String, _ meaning: String) -> SecretFile? {
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
    /// A file that must be readable.
    static var file: Self {
        .init(name: "file", placeholder: "") { text throws(ConfigurationTypeError) in
            let path = try ConfigurationType.text.parse(text)
            if let problem = ConfigurationFiles.problem(with: path) { throw .init(message: problem) }
            return path
        }
    }
}
