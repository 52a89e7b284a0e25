import CLI

/// `upstream-worker` without compiled-in handlers.
@main
enum Program {
    static func main() async {
        await WorkerProgram.main()
    }
}
