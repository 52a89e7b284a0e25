package import Foundation
import Glibc

/// Why Foundation could not read or write a file, in the system's words.
package enum FileTrouble {
    /// The reason, such as `No such file or directory`, not Foundation's `NSCocoaErrorDomain` and a number.
    package static func reason(_ error: any Error) -> String {
        if let error = error as? POSIXError { return String(cString: strerror(error.code.rawValue)) }
        guard let error = error as? CocoaError else { return "\(error)" }
        if let cause = error.underlying, cause is POSIXError || cause is CocoaError { return reason(cause) }
        switch error.code {
        case .fileNoSuchFile, .fileReadNoSuchFile: return "No such file or directory"
        case .fileReadNoPermission, .fileWriteNoPermission: return "Permission denied"
        case .fileWriteFileExists: return "File exists"
        case .fileWriteOutOfSpace: return "No space left on device"
        case .fileWriteVolumeReadOnly: return "Read-only file system"
        case .fileReadInapplicableStringEncoding, .fileReadCorruptFile: return "It is not text that can be read"
        default: return "error \(error.code.rawValue)"
        }
    }

    package static func path(_ error: CocoaError) -> String? {
        error.filePath ?? error.url?.path
    }
}
