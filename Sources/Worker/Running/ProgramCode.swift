import CGlibc

/// The code and constants of the program and of its libraries, as far as they lie in memory.
enum ProgramCode {
    /// Lets go of all of it; what runs afterwards comes back, 64 KB at a time, without reading the disk.
    ///
    /// The start reads the configuration, searches Swift's tables of types, and initialises a dozen libraries, with code that
    /// never runs again: 30 of 53 MB, measured under load. The kernel would take these pages by itself where memory is short;
    /// but until then they count in the figure (`VmRSS`, `process_resident_memory_bytes`) that alerts are set by. Costs a fault
    /// of a microsecond for each 64 KB that are used again, once.
    ///
    /// A breakpoint or uprobe that was set in the code before is lost with the page that holds it.
    ///
    /// - Returns: How many bytes code and constants span, whether they were in memory or not.
    @discardableResult
    static func release() -> Int { upstream_release_code() }
}
