import Testing

@testable import UpstreamKit
