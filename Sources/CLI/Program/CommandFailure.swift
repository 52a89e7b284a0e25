import Console
import Diagnosis
import Foundation
import LocalDatabase
import MessageStore
import Postgres
import Querying
import Replaying
import Resources
import UpstreamConfiguration
import Vocabulary
import Worker

/// A command's failure: the one place where errors become exit codes.
struct CommandFailure: Error, CustomStringConvertible {
    var status: ExitStatus
    /// The message on stderr; empty if nothing more needs to be said.
    var message: String

    init(_ status: ExitStatus, _ message: String = "") {
        self.status = status
        self.message = message
    }

    package var description: String { message }

    /// Maps any error of the program; nil for unknown ones.
    init?(_ error: any Error) {
        switch error {
        case let error as CommandFailure: self = error
        case let error as ConfigurationError:
            let count = error.problems.count
            let head = error.kind == .noInput ? "" : "\n\(count == 1 ? "1 problem" : "\(count) problems") found."
            self.init(error.kind == .noInput ? .noInput : .configuration, error.description + head)
        case let error as PostgresError where error.isOfReader: self.init(ofReader: error)
        case let error as PostgresError:
            let subject = error.unusableKey == nil ? "database: " : ""
            self.init(ExitStatus(error), "\(subject)\(error)" + (DatabaseAdvice.hint(error).map { "\n" + $0 } ?? ""))
        case let error as StoreError: self.init(error)
        case let error as LocalCluster.StartError: self.init(.unavailable, error.description)
        case let error as MigrationError: self.init(ExitStatus(error), "\(error)")
        case is WorkerError, is ConsoleError: self.init(.configuration, "\(error)")
        case let error as AckedFile.Failure: self.init(error.isMissing ? .noInput : .badData, error.description)
        case let error as FilterError: self.init(.usage, "\(error)")
        case let error as FilterMistake: self.init(error)
        case let error as ReplayError: self.init(error)
        case let error as ExportError:
            // Whoever closed the reader knows.
            self.init(ExitStatus(error), error.kind == .readerGone ? "" : error.description)
        case let error as CocoaError:
            let isMissing = error.code == .fileNoSuchFile || error.code == .fileReadNoSuchFile
            let path = FileTrouble.path(error).map { "'\($0)': " } ?? ""
            self.init(isMissing ? .noInput : .configuration, path + FileTrouble.reason(error))
        case let error as POSIXError:
            self.init(.internalError, FileTrouble.reason(error))
        default: return nil
        }
    }

    init(_ error: StoreError) {
        self.init(error.kind == .timedOut ? .temporaryFailure : .unavailable, "database: \(error.message)")
    }

    /// What was read where `database.read_url` says failed there.
    private init(ofReader error: PostgresError) {
        let key = "database.read_url"
        if let text = error.standbyConflict {
            self.init(.temporaryFailure, "\(key): \(text)")
            return
        }
        let hint = DatabaseAdvice.hint(error).map { "\n" + $0.replacing("database.url", with: key) } ?? ""
        let way = "nothing is read at the primary instead: --set \(key)=… names another server"
        self.init(ExitStatus(error), "\(key): \(error); \(way)\(hint)")
    }

    /// What only the tables' owner may do was tried as another role.
    init(notOwner error: PostgresError, may what: String) {
        self.init(
            .refused,
            "database: \(error): only the tables' owner may \(what): connect as that role with --set database.url=…"
        )
    }
}
