import ServiceLifecycle

/// Reads the tokens again and again, so that one that was withdrawn ends its sessions even where nobody asks meanwhile.
struct TokenWatch: Service {
    let access: ConsoleAccess

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: TokenRegistry.age)) != nil { access.refreshTokens() }
        }
    }
}
