import Testing

@testable import TLSWire
