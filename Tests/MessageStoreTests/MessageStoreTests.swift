import Testing

@testable import MessageStore
