import Testing

@testable import Handlers
