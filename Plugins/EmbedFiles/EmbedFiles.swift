import Foundation
import PackagePlugin

/// Embeds a folder's files in a module, as `EmbeddedFiles.all`, anew at each build.
@main
struct EmbedFiles: BuildToolPlugin {
    /// The folder of each module that uses the plugin, relative to the package's root.
    private static let folders = ["MessageStore": "migrations", "Console": "Sources/Console/Assets"]

    func createBuildCommands(context: PluginContext, target: any Target) throws -> [Command] {
        guard let folder = Self.folders[target.name] else {
            Diagnostics.error("\(target.name) has no folder to embed: Plugins/EmbedFiles names them")
            return []
        }
        let files = try FileManager.default.contentsOfDirectory(
            at: context.package.directoryURL.appending(path: folder),
            includingPropertiesForKeys: nil,
            options: .skipsHiddenFiles
        ).filter { $0.pathExtension != "txt" }.sorted { $0.path < $1.path }
        let output = context.pluginWorkDirectoryURL.appending(path: "EmbeddedFiles.swift")
        return [
            .buildCommand(
                displayName: "Embedding \(folder)",
                executable: try context.tool(named: "Embed").url,
                arguments: [output.path] + files.map(\.path),
                inputFiles: files,
                outputFiles: [output]
            )
        ]
    }
}
