import CLI

/// `upstream-worker`: the commands, and no handlers but the configured ones.
@main
enum Program {
    static func main() async {
        await WorkerProgram.main()
    }
}
