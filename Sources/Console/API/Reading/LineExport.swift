import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Querying
import Resources

/// Any number of rows as NDJSON, a part of them after the other.
///
/// Each part is read under a session of its own and then sent, so a slow client holds none. Where something fails midway,
/// the last line is an object with the member `error`, and the connection is aborted: the end never looks like a complete
/// one.
struct LineExport<Place: Sendable, Rows: Sendable>: Sendable {
    /// The file's name, without its ending.
    let name: StaticString
    /// Reads the rows from a place on; with the place behind them, nil behind the last.
    let read: @Sendable (Place, PostgresConnection) async throws -> (rows: Rows, next: Place?)
    /// The rows' lines, as a reader may see them.
    let lines: @Sendable (Rows, Sight) throws -> [UInt8]

    /// Sends all rows from where `begin` says.
    func response(
        _ services: ConsoleServices,
        from begin: @Sendable (PostgresConnection) async throws -> Place
    ) async throws -> Response {
        let place = try services.exports.take()
        // The first part is read before the head is sent: an export that can't begin is an ordinary error.
        let first = try await services.reader.withConnection(.search) { connection in
            try await read(begin(connection), connection)
        }
        let body = ResponseBody { [place] writer in
            defer { withExtendedLifetime(place) {} }
            let out = StreamOutput(writer)
            do {
                try await write(first, services, out)
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                let problem = (Problem(error) ?? Problem(.internal, "the log has the cause")).json()
                try await out.write("{\"error\":\(String(decoding: problem, as: UTF8.self))}\n")
                throw error
            }
            try await out.finish()
        }
        var headers: HTTPFields = [.contentType: "application/x-ndjson"]
        headers[.contentDisposition] = "attachment; filename=\"\(name).ndjson\""
        return Response(status: .ok, headers: headers, body: body)
    }

    private func write(
        _ first: (rows: Rows, next: Place?),
        _ services: ConsoleServices,
        _ out: StreamOutput
    ) async throws {
        var part = first
        while true {
            try await out.write(ByteBuffer(bytes: lines(part.rows, services.sight)))
            guard let next = part.next else { return }
            part = try await services.reader.withConnection(.search) { try await read(next, $0) }
        }
    }
}
