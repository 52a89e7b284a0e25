import ConfigurationKeys
package import Handlers
package import Querying
package import UpstreamKit

/// A handler: its categories, how it runs, and how often it is tried.
package struct HandlerConfiguration: Sendable, Equatable {
    /// The handler's name, also the metrics' label `handler`.
    package var name: String
    package var categories: [String]
    /// Conditions on `data`, which must all hold.
    package var filter: HandlerFilter
    package var concurrency: Int
    package var ordering: HandlerOrdering
    package var retry = RetryPolicy()
    package var rate: HandlerRate?
    package var limit: HandlerLimit?
    package var timeout: Duration
    @AnyHandlerKind package var kind: any HandlerKind

    init(_ scope: ConfigurationScope) {
        let name = ConfigurationType.text("name", HandlerRegistration.nameRule, HandlerRegistration.isValid(name:))
        let category = ConfigurationType.text("category", CategorySet.entryRule, CategorySet.isValid(entry:))
        self.name = scope.required("name", name).means("The handler's name: in the database, in metrics and in logs.")
        let list = scope.list("categories", of: category, "required")
            .means("Category names, prefixes such as `\"com.example.*\"`, or `\"*\"` for all.")
        categories = list ?? []
        if list?.isEmpty ?? scope.isMissing("categories") {
            scope.problem("categories", "must name at least one category, or \"*\"")
        }
        filter = HandlerFilter(
            scope.values("where", of: .clause, "none").means(
                "Conditions on `data`, which must all hold: `data.total>=100`."
            )
        )
        concurrency = scope.value("concurrency", .number(1...1000), default: "4").means("Messages at the same time.")
        ordering = scope.value("ordering", .word(HandlerOrdering.none), default: "none")
            .means("`device`: one at a time per device, in the order of arrival.")
        rate = scope.optional("rate", .rate, "none")
            .means("Attempts that may begin in a time, in each worker: `100/s`, `30/m`.")
        limit = HandlerLimit(scope.section("limit"))
        let keys = scope.section("retry")
        retry.maxAttempts = keys.value("max_attempts", .number(1...1000), default: "75")
            .means("Attempts before a delivery becomes a dead letter; with the default waits they reach over a day.")
        retry.initial = keys.value("initial", .duration("1ms", "1d"), default: "1s")
            .means("First wait between two attempts.")
        retry.maximum = keys.value("maximum", .duration("1ms", "7d"), default: "1h")
            .means("Longest wait between two attempts.")
        if retry.initial > retry.maximum { keys.problem("initial", "must not be longer than 'maximum'") }
        timeout = scope.value("timeout", .duration("100ms", "1d"), default: "60s")
            .means("Longest time for one attempt; of a plugin, for one call.")
        var kind = HandlerKinds.read(scope)
        kind.adapt(timeout: &timeout)
        self.kind = kind
    }
}

extension ConfigurationType where Value == HandlerClause {
    /// A condition on `data`, as `messages list --where` takes it.
    static var clause: Self {
        .init(name: "clause", placeholder: .placeholder) { text throws(ConfigurationTypeError) in
            do throws(FilterError) { return try HandlerClause(parsing: text) } catch {
                let text = ConfigurationType<String>.shown(text)
                throw .init(message: "\(error.message) (character \(error.position + 1) of '\(text)')")
            }
        }
    }
}

extension HandlerLimit {
    /// Nil where no key of the section is set.
    fileprivate init?(_ scope: ConfigurationScope) {
        self.init(
            concurrency: scope.optional("concurrency", .number(1...10_000), "none")
                .means("Messages at the same time, in all workers together."),
            rate: scope.optional("rate", .rate, "none")
                .means("Attempts that may begin in a time, in all workers together: `100/s`, `30/m`.")
        )
        _ = scope.value("across", .word(HandlerLimitReach.workers), default: "workers")
            .means("What the limit holds over: `workers`, all that run the handler.")
        if concurrency == nil, rate == nil { return nil }
    }
}

/// What a handler's limit holds over.
private enum HandlerLimitReach: String, CaseIterable, Sendable {
    case workers
}

extension ConfigurationType where Value == HandlerRate {
    /// A number of attempts per second, minute or hour: `100/s`, `30/m`, `5/h`.
    static var rate: Self {
        let wanted = "a number from 1 to 1000000 in a second, minute or hour, such as 100/s, 30/m or 5/h"
        return .init(name: "rate", placeholder: HandlerRate(1), wanted: wanted) { text in
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            let periods: [Substring: Duration] = ["s": .seconds(1), "m": .seconds(60), "h": .seconds(3_600)]
            guard parts.count == 2, parts[0].allSatisfy({ ("0"..."9").contains($0) }), let count = Int(parts[0]),
                (1...1_000_000).contains(count), let period = periods[parts[1]]
            else { return nil }
            return HandlerRate(count, per: period)
        }
    }
}
