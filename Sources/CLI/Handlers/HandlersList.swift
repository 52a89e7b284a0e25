import ArgumentParser
import MessageStore
import Resources
import Vocabulary

struct HandlersList: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows every registered handler; counts stop at 100000, shown as 100000+.",
        discussion: """
            Examples:
              upstream-worker handlers list
              upstream-worker handlers list --json | jq '.[] | select(.claimed | not)'

            failing: the circuit breaker of at least one worker is open; the handler gets \
            nothing but a probe at the time shown. With --json its state is active, and its circuit open or half_open. \
            held: the handler asked for a pause (Retry-After) that lasts until the time shown; `handlers resume` ends it. \
            With --json its state is active, and held_until the time. \
            unclaimed: no worker has run the handler for two minutes; its messages wait. Configure it, or remove it with \
            `handlers remove`. A handler receives every category that at least one of its workers asks for. A worker that \
            was stopped no longer counts; one that crashed counts until it has been silent for ten minutes. \
            With --json, counted_to is where the counts stop: there may be more.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: ListOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        let handlers = try await options.withConnection(context) { try await HandlerView.list($0) }
        try console.show(handlers, output, RowList<HandlerView>(none: "no handlers are registered"))
        guard try output.chosen(console) == .table, output.columns == nil else { return }
        let workers = handlers.flatMap { handler in handler.state.workers.map { [handler.state.name] + $0.cells } }
        guard !workers.isEmpty else { return }
        console.data("")
        console.show(TextTable(["HANDLER"] + HandlerWorker.columns, workers), way: "--json has all")
    }
}
