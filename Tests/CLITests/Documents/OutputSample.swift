import Foundation

/// A command of a document and what is shown below it.
struct OutputSample {
    /// The command line.
    var command: String
    /// The lines below it.
    var output: [String] = []

    /// The commands of a block with their output.
    static func samples(of block: [String]) -> [OutputSample] {
        guard block.contains(where: { $0.hasPrefix("$ ") }) else {
            return ShellExample.lines(of: block).map { OutputSample(command: $0) }
        }
        var samples: [OutputSample] = []
        for line in block {
            if line.hasPrefix("$ ") {
                samples.append(OutputSample(command: String(line.dropFirst(2))))
            } else if !samples.isEmpty {
                samples[samples.count - 1].output.append(line)
            }
        }
        return samples
    }

    /// What a line is whatever its figures: the head of a table whole, of other columns the label, else the words.
    private static func shape(_ line: String) -> String {
        let cells = line.split(separator: /\s{2,}/).map(String.init)
        let isHead = !line.contains(/[a-z0-9]/)
        if cells.count > 1, !isHead { return figures(cells[0]) + " …" }
        return isHead ? cells.joined(separator: "  ") : figures(line.trimmingCharacters(in: .whitespaces))
    }

    private static func figures(_ text: String) -> String {
        // People read another form than programs do.
        text.replacing(/\d{4}-\d\d-\d\dT[0-9:.]+Z/, with: "J").replacing(/\d{4}-\d\d-\d\d( [0-9:]+Z)?/, with: "T")
            .replacing(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/, with: "K")
            .replacing(/~?\d[\d,.]*( ?(B|KiB|MiB|GiB|ms|s|min|h)\b)?/, with: "0")
    }

    /// The shapes of an output, without the rows of tables; where the first column names them, its cells.
    private static func shapes(_ lines: [String]) -> [String] {
        var isTable = false
        var isNamed = false
        return lines.compactMap { line in
            if line.isEmpty || line == "…" {
                isTable = isTable && !line.isEmpty
                return nil
            }
            // A remark below a table is no row: one cell.
            if isTable, line.contains("  ") { return isNamed ? shape(line) : nil }
            isTable = line.contains(/^[A-Z]{2}/) && !line.contains(/[a-z0-9]/)
            isNamed = line.contains(/^(CHECK|KEY|TABLE +(WOULD BE )?ERASED)/)
            return shape(line)
        }
    }

    /// The shapes of what is shown that a run lacks, or prints in another order.
    func missing(from run: CommandRun) -> [String] {
        // Each stream has an order of its own.
        var streams = [run.output, run.errors].map { Self.shapes($0.components(separatedBy: "\n"))[...] }
        return Self.shapes(output).filter { shape in
            for (index, stream) in streams.enumerated() {
                guard let found = stream.firstIndex(of: shape) else { continue }
                streams[index] = stream[(found + 1)...]
                return false
            }
            return true
        }
    }
}
