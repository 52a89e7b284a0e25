import Testing

/// The guarantees of the whole path, on a real PostgreSQL and the emulator.
///
/// Each test brings processes, event loops and a server to life: one at a time.
@Suite(.serialized) enum Integration {}
