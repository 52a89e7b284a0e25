import Testing

@testable import XMPPSession
