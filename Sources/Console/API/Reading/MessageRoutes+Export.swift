import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Querying

extension MessageRoutes {
    private static let exportRows = 2_000

    /// `GET messages/export`: any number of messages as NDJSON, oldest first.
    ///
    /// Each page is read in a session of its own and then sent, so a slow client holds none. After a failure the last
    /// line is an object with the member `error`, and the connection is aborted: an incomplete export never looks
    /// complete. `after` continues it, made from `received_at` and `message_key` of the last line.
    func export(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let names = QueryParameters.Names(
            single: FilterParameters.single + ["after"],
            repeatable: FilterParameters.repeatable
        )
        let parameters = try QueryParameters(request, names)
        let chosen = try FilterParameters(parameters, showsPayloads: services.settings.showsPayloads, principal)
        let cursor = try parameters.cursor(MessageCursor.init)
        let (services, place) = (services, try exports.take())
        // The first page is read before the head is sent: an export that can't begin is an ordinary error.
        let first = try await services.reader.withConnection(.search) { connection in
            var filter = try await chosen.judged(connection)
            if filter.until == nil { filter.until = try await MessageExport.end(connection) }
            var pager = MessagePager(filter, .oldestFirst, limit: Self.exportRows, after: cursor)
            (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.part, true)
            let page = try await pager.next(connection)
            return (pager: pager, page: page)
        }
        let body = ResponseBody { [place] writer in
            defer { withExtendedLifetime(place) {} }
            let out = StreamOutput(writer)
            do {
                try await Self.write(first.pager, first.page, services, out)
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                let problem =
                    Problem(error) ?? Problem(.internalServerError, "internal", "The export failed", "see the log")
                var line = ByteBuffer(string: "{\"error\":")
                line.writeBytes(problem.json.dropLast())
                line.writeString("}\n")
                try await out.write(line)
                throw error
            }
            try await out.finish()
        }
        var headers: HTTPFields = [.contentType: "application/x-ndjson"]
        headers[.contentDisposition] = "attachment; filename=\"messages.ndjson\""
        return Response(status: .ok, headers: headers, body: body)
    }

    private static func write(
        _ pager: MessagePager,
        _ page: MessagePage,
        _ services: ConsoleServices,
        _ out: StreamOutput
    ) async throws {
        var lines = MessageLines(.ndjson, tokens: false, payloads: services.settings.showsPayloads)
        var (pager, page) = (pager, page)
        while true {
            for row in 0..<page.count { lines.append(page, row) }
            let isLast = !page.isFull
            try await out.write(ByteBuffer(bytes: lines.take()))
            if isLast { return }
            let next = pager
            (pager, page) = try await services.reader.withConnection(.search) { connection in
                var pager = next
                let page = try await pager.next(connection)
                return (pager, page)
            }
        }
    }
}
