import Testing

@testable import CCSEmulator
