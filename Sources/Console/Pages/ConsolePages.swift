enum ConsolePages {
    static func all(_ services: ConsoleServices) -> [any ConsoleRoutes] {
        [
            AuditPage(services: services),
            ConflictsPage(services: services),
            DeadPage(services: services),
            DeliveriesPage(services: services),
            HandlersPage(services: services),
            MessageDetailPage(services: services),
            MessageListPage(services: services),
            NewReplayPage(services: services),
            OverviewPage(services: services),
            PageAssets(),
            QuarantinePage(services: services),
            ReplaysPage(services: services),
            RetentionPage(services: services),
        ]
    }
}
