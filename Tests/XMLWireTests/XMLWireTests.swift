import Testing

@testable import XMLWire
