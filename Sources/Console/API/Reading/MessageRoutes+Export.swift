import HTTPTypes
import Hummingbird
import NIOCore
import Querying
import Resources

extension MessageRoutes {
    private static let exportRows = 2_000

    static let lastLine = Parameter.after(
        about: "Where the last line there is stands: its received_at, a slash and its message_key.",
        MessageCursor.init
    )

    /// `GET messages/export`: any number of messages as NDJSON, the oldest first.
    ///
    /// Each page is read under a session of its own and then sent, so a slow client holds none. Where something fails midway,
    /// the last line is an object with the member `error`, and the connection is aborted: the end never looks like a complete
    /// one. What has arrived is continued by `after`, with the `received_at` and the `message_key` of its last line.
    static func export(_ request: EndpointRequest) async throws -> Response {
        let (chosen, cursor) = (try request.filter(MessageFilter.self), try request[lastLine])
        let services = request.services
        let place = try services.exports.take()
        // The first page is read before the head is sent: an export that can't begin is an ordinary error.
        let first = try await services.reader.withConnection(.search) { connection in
            var filter = try await chosen.judged(connection)
            if filter.until == nil { filter.until = try await MessageExport.end(connection) }
            var pager = MessagePager(filter, .oldestFirst, limit: exportRows, after: cursor)
            (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.part, true)
            let page = try await pager.next(connection)
            return (pager: pager, page: page)
        }
        let body = ResponseBody { [place] writer in
            defer { withExtendedLifetime(place) {} }
            let out = StreamOutput(writer)
            do {
                try await write(first.pager, first.page, services, out)
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
        headers[.contentDisposition] = "attachment; filename=\"messages.ndjson\""
        return Response(status: .ok, headers: headers, body: body)
    }

    private static func write(
        _ pager: MessagePager,
        _ page: MessagePage,
        _ services: ConsoleServices,
        _ out: StreamOutput
    ) async throws {
        var lines = MessageLines(.ndjson, tokens: false, payloads: services.sight.payloads)
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
