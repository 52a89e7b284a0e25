/// A resource with its endpoints and pages, described by one value in one file of this folder.
struct ConsolePart: Sendable {
    /// Its entry in the navigation; nil for what has no page of its own.
    var section: Section?
    var endpoints: [Endpoint] = []
    var pages: [Page] = []

    /// All parts, in the order of the navigation.
    static let all = [
        OverviewPart.part, MessagePart.part, HandlerPart.part, DeliveryPart.part, DeadPart.part, QuarantinePart.part,
        ConflictPart.part, ReplayPart.part, RetentionPart.part, AuditPart.part, JobPart.part, HistoryPart.part,
        SystemPart.part, FindPart.part, MaintenancePart.part,
    ]
}

/// An entry of the navigation.
struct Section: Sendable {
    let title: String
    let address: PageAddress
    /// Its icon, drawn with lines on 24 by 24.
    let icon: HTML

    init(_ title: String, _ address: PageAddress, _ icon: HTML) {
        (self.title, self.address, self.icon) = (title, address, icon)
    }

    /// Its item in the list, marked on its own pages.
    func item(isCurrent: Bool) -> HTML {
        #"""
        <li><a href="\#(address)"\#(HTML.when(isCurrent, #" aria-current="page""#))>\#
        <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="\#(icon)"/></svg>\#(title)</a></li>
        """#
    }
}

extension PageAddress: ExpressibleByStringLiteral {
    package init(stringLiteral value: StaticString) { self.init(value) }
}
