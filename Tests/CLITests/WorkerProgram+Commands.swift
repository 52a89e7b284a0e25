import CLI

extension WorkerProgram {
    /// Every command and group, as typed after the program's name.
    static var commands: [[String]] {
        func paths(of tree: CommandTree, under path: [String]) -> [[String]] {
            tree.children.flatMap { [path + [$0.commandName]] + paths(of: $0, under: path + [$0.commandName]) }
        }
        return (try? CommandTree.program()).map { paths(of: $0, under: []) } ?? []
    }
}
