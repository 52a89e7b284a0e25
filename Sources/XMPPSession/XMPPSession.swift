// XMPPSession
