import ServiceLifecycle

/// Rereads the tokens regularly, so that a withdrawn token ends its sessions even without requests.
struct TokenWatch: Service {
    let access: ConsoleAccess

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: TokenRegistry.age)) != nil { access.refreshTokens() }
        }
    }
}
