import CGlibc

/// The resident code and constants of the program and its libraries.
enum ProgramCode {
    /// Releases all of it; code that runs afterwards is mapped again, 64 KB at a time, without reading the disk.
    ///
    /// The start reads the configuration, searches Swift's tables of types, and initialises a dozen libraries, with
    /// code that never runs again: 30 of 53 MB, measured under load. The kernel would reclaim these pages when memory
    /// is short; until then they count in the figure (`VmRSS`, `process_resident_memory_bytes`) that alerts use. Costs
    /// one fault of a microsecond for each 64 KB used again.
    ///
    /// A breakpoint or uprobe set in the code before is lost with its page.
    ///
    /// - Returns: The bytes that code and constants span, resident or not.
    @discardableResult
    static func release() -> Int { upstream_release_code() }
}
