import Foundation
import IntegrationSupport
import QuerySupport
import Testing

/// The console as people use it: Debian's chromium goes through every page and action.
struct BrowserTests {
    private static let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test(
        "every page and action in a browser, light and dark, 360 and 1440 px: axe finds nothing, nothing of strangers runs",
        .timeLimit(.minutes(30))
    )
    func pages() async throws { try await Self.run(over: "") }

    @Test("what people on call ask takes three clicks from the overview at most", .timeLimit(.minutes(30)))
    func tasks() async throws { try await Self.run(over: BrowserStage.troubles, ["tasks"]) }

    /// Runs the driver, or some of its steps, over a stage with more rows.
    private static func run(over rows: String, _ steps: [String] = []) async throws {
        let stage = try await BrowserStage()
        if !rows.isEmpty { try await stage.database.script(rows) }
        let (code, output) = try await drive(try await input(stage), steps, in: stage.folder)
        try await stage.stop()
        print(output.split(separator: "\n").filter { $0.hasPrefix("#") }.joined(separator: "\n"))
        #expect(code == 0, "\(output)")
    }

    /// What the driver is told.
    private static func input(_ stage: BrowserStage) async throws -> Data {
        let order = try await stage.key("order-5")
        let pages = [
            "overview": "/", "messages": "/messages", "message": "/messages/\(order)",
            "message-wide": "/messages/wide", "message-deep": "/messages/deep", "message-nul": "/messages/nul",
            "filter-mistake": "/messages?where=data.x%3D%3D%3D&device=x", "nothing-found": "/messages?category=none",
            "handlers": "/handlers", "handler": "/handlers/orders", "handler-paused": "/handlers/billing?range=7d",
            "deliveries": "/deliveries", "dead": "/dead",
            "dead-handler": "/dead?handler=billing", "dead-letters": "/dead/letters?handler=orders",
            "quarantine": "/quarantine", "stanza": "/quarantine/1", "stanza-hex": "/quarantine/1?view=hex",
            "conflicts": "/conflicts", "conflict": "/conflicts/\(order)/00000000-0000-4000-8000-000000000001",
            "replays": "/replays", "replay-new": "/replays/new", "retention": "/retention", "audit": "/audit",
            "jobs": "/jobs",
        ]
        let (script, image) = (BrowserStage.script, BrowserStage.image)
        let hostile = [
            "/": [script], "/messages?until=2026-03-02": [script, image, "U+202E"],
            "/messages/\(PageText.encoded(script))": [script, "</pre>" + script],
            "/messages/\(PageText.encoded(BrowserStage.turned))": ["U+202E", "U+200B"],
            "/messages/nul": ["\\u0000"], "/handlers/billing": [script], "/deliveries?handler=orders": [script],
            "/dead": [script, "U+202E"], "/dead/letters?handler=orders": ["U+202E"],
            "/quarantine": [script], "/quarantine/1": [script, "\\u{202E}", "(masked)"],
            pages["conflict"] ?? "": [script], "/audit": [script, "U+202E"],
        ]
        return try JSONSerialization.data(
            withJSONObject: [
                "url": "http://127.0.0.1:\(stage.port)", "pages": pages, "hostile": hostile,
                "tokens": BrowserStage.tokens, "device": try await stage.device(),
            ] as [String: Any]
        )
    }

    /// Runs the driver to its end.
    private static func drive(
        _ input: Data,
        _ steps: [String],
        in folder: TemporaryFolder
    ) async throws -> (Int32, String) {
        let (python, browser) = (try TestTools.python(), "/usr/bin/chromium")
        try #require(
            FileManager.default.isExecutableFile(atPath: browser),
            "no \(browser): scripts/install-test-tools installs it"
        )
        let process = Process()
        process.executableURL = URL(filePath: python)
        let pictures = tests.deletingLastPathComponent().appending(path: ".build/console-screenshots")
        process.arguments = [TestTools.path("console_browser.py"), pictures.path] + steps
        let output = URL(filePath: try folder.write([], as: "browser.out"))
        process.standardInput = try FileHandle(forReadingFrom: URL(filePath: folder.write(input, as: "browser.in")))
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = process.standardOutput
        try process.run()
        // Each of its steps has a limit of its own; all together take long beside a build.
        try await waitUntil("the browser is done", limit: .seconds(1_500)) { !process.isRunning }
        return (process.terminationStatus, try String(contentsOf: output, encoding: .utf8))
    }
}

/// Text within a path.
private enum PageText {
    static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }
}
