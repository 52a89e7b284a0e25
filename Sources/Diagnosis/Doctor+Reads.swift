package import Postgres
import Vocabulary

extension Doctor {
    /// Asks a server where console and commands read how far behind it is.
    package static func readLag(_ settings: PostgresSettings) async -> Result<ReadLag, PostgresError> {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.open(settings)
            let lag = try await connection.settledLag()
            await connection.close()
            return .success(lag)
        } catch {
            return .failure(error)
        }
    }

    /// Judges where console and commands read.
    func reading(_ diagnosis: inout Diagnosis) {
        switch reads {
        case nil: return
        case .success(let lag):
            diagnosis.note("reads", lag.note ?? "read_url names the primary")
            guard let seconds = lag.seconds, seconds > limits.lag.inSeconds else { return }
            diagnosis.find(
                .readsBehind,
                "console and lists read from a standby that is \(Amount.time(seconds)) behind",
                fix: "look at its connection to the primary, its disk, and queries there that replay waits for "
                    + "(max_standby_streaming_delay); or take database.read_url out"
            )
        case .failure(let error):
            diagnosis.find(
                .readsDown,
                "console and lists can't read where database.read_url says: \(error)",
                fix: "start that server, or take database.read_url out: nothing is read at the primary instead"
            )
        }
    }
}
